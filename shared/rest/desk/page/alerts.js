// Alerts: what was found that is not well, whom it was told and when, and whether that message arrived.
const DAY = 86400000;
/** Those that stand, and those that were over in the last day. */
function alertsPanel(alerts, routes) {
  if (!alerts || !routes) return null;
  const shown = [...alerts.filter((one) => one.overAt === null), ...alerts.filter((one) => one.overAt !== null && now() - one.overAt < DAY)];
  return el("section", {class: "panel", "aria-label": "Alerts"}, el("header", {}, el("h2", {}, "Alerts"), el("span", {}, "each reported once, and once when it is over")),
    el("p", {}, routes.length ? ["Sent to ", routes.flatMap((route, at) => [at ? ", " : "", ...placeOfRoute(route)]), "."] : "No chat gets them, so nothing is checked: emulator alerts add NAME --chat N"),
    shown.length ? longList(shown, (one) => alertRow(one, routes)) : null);
}
const placeOfRoute = (route) => [`${route.name} (`, el("a", {href: `#/c/${route.chatId}`}, route.chatName || `${route.channel} chat ${route.chatId}`), ")"];
function alertRow(alert, routes) {
  const row = el("li", {class: "item", "data-key": `alert ${alert.id}`}), stands = alert.overAt === null;
  const dead = [...new Set(alert.told.filter((one) => one.state === "answer_dead").map((one) => one.overToldBy ?? one.toldBy))];
  row.append(mark(stands ? "warn" : "done", stands ? "problem" : "over"), el("div", {}, el("h3", {}, stands ? el("a", {href: alert.place}, alert.what) : alert.what, el("span", {}, stands ? ` · since ${instant(alert.since)}` : ` · over since ${instant(alert.overAt)}`)),
      alert.told.map(toldLine), alert.told.length ? null : el("p", {}, stands ? untold(alert, routes) : "Nobody was told.")),
    el("div", {class: "acts"}, dead.map((id) => button("Send again", `Send again: response ${id}.`, [[`/api/responses/${id}/retry`, "POST"]], row))));
  return row;
}
const untold = (alert, routes) => routes.some((route) => !route.kinds.length || route.kinds.includes(alert.kind)) ? "Not reported yet: in quiet hours, before a digest, or while the channel can't send." : `No route reports “${alert.kind}”.`;
function toldLine(one) {
  const by = one.saidBy === one.route ? "" : ` by ${one.saidBy}`, over = one.overToldAt ? `, and at ${instant(one.overToldAt)} that it is over` : "";
  const isSent = ["answered", "gone"].includes(one.state);
  return el("p", {class: one.state === "answer_dead" ? "bad" : null}, `Notified ${one.route}${by} at ${instant(one.toldAt)}${over}.`, isSent ? null : ` ${one.reason}`);
}
