// The right side: every webhook and every call of the bot in this chat.
const steps = new Map();   // key -> [fingerprint, element]: an open entry stays open
function drawSteps() {
  const list = $(".steps"), low = isLow(list) || list.dataset.chat !== platform + chat;
  const onlyRefused = $("#only-refused").checked;
  const all = [
    ...[...deliveries.values()].map((d) => ({at: d.created_ms, order: 0, key: "d" + (d.update_id ?? d.interaction), data: d, isBad: d.state === "dropped" || Boolean(d.error)})),
    ...calls.map((c) => ({at: c.at_ms, order: 1, key: "c" + c.seq, data: c, isBad: isRefused(c)})),
  ].filter((s) => !onlyRefused || s.isBad).sort((a, b) => a.at - b.at || a.order - b.order).slice(-400);
  const none = onlyRefused ? "Nothing was refused here." : "Nothing yet. Every webhook and every call of the bot shows up here, with its status.";
  patch(list, all.length ? all.map(stepNode) : [el("li", {class: "nothing"}, none)]);
  const shown = new Set(all.map((s) => s.key));
  if (steps.size > KEEP) for (const key of steps.keys()) if (!shown.has(key)) steps.delete(key);
  if (low) list.scrollTop = list.scrollHeight;
  list.dataset.chat = platform + chat;
  const refused = calls.filter(isRefused).length;
  $("#show-events").replaceChildren("Events", refused ? el("span", {class: "unread bad", "aria-label": `${refused} refused`}, String(refused)) : "");
}
function stepNode(s) {
  const print = s.order ? "" : JSON.stringify(s.data), [old, node] = steps.get(s.key) || [];
  if (old === print) return node;
  const made = el("li", {}, s.order ? callStep(s) : deliveryStep(s, node?.querySelector("details").open));
  steps.set(s.key, [print, made]);
  return made;
}
const MOST_SHOWN = 20000;   // characters of one body; the record keeps little more
function bodyText(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return !text ? "(empty)" : text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}… (${text.length} characters)` : text;
}
const part = (label, value) => el("div", {class: "part"}, el("h3", {}, label), el("pre", {tabindex: "0"}, bodyText(value)));
const partsOf = (call) => [part("The bot sent", call.params), part(`${platformName()} answered ${call.status || "nothing"}`, call.answer)];
function step(way, name, chip, tone, left, right, inside, isOpen) {
  const node = el("details", {open: Boolean(isOpen)},
    el("summary", {}, el("span", {class: "way" + (way === "←" ? " out" : ""), "aria-hidden": "true"}, way), el("span", {class: "name", title: name}, name), el("span", {class: "chip " + tone}, chip), el("small", {}, el("span", {title: left}, left), el("span", {}, right))));
  node.addEventListener("toggle", async () => { if (node.open && node.children.length === 1) node.append(...await inside()); });
  return node;
}
/** Each attempt of a delivery: what came in to the bot, and what it answered. */
async function attemptsOf(d) {
  const {attempts} = await get(`/${platform}/webhooks/${d.update_id ?? d.interaction}`).catch(() => ({attempts: []}));
  if (!attempts.length) return [part("No webhook carried it; what is known of it", d)];
  return [part("Sent to the bot", attempts[0].body), ...attempts.map((a, at) => part(`The bot answered ${a.status ?? "nothing"}${attempts.length > 1 ? `, try ${at + 1}` : ""}`, a.status === null ? a.error : a.answer))];
}
function deliveryStep(s, isOpen) {
  const d = s.data, good = d.state === "delivered", tone = good ? "" : d.state === "dropped" ? "bad" : d.attempts ? "warn" : "none";
  const words = d.state === "dropped" ? d.error || "given up" : d.error || (d.attempts ? (d.attempts > 1 ? `try ${d.attempts}` : "first try") : "on its way") + (d.took_ms !== null ? ` · ${took(d.took_ms)}` : "");
  const name = !can("commands") ? "webhook " + d.kind : d.kind === "press" ? "interaction button" : d.kind === "interaction" ? `interaction ${commandName(messages.get(d.message)?.command ?? "ask")}` : "interaction " + d.kind;
  return step("→", name, String(d.status ?? (d.attempts ? "failed" : "…")), tone, words, time(d.created_ms, true), () => attemptsOf(d), isOpen);
}
function callStep(s) {
  const c = s.data, bad = isRefused(c);
  const left = bad ? whyRefused(c) : c.params.text || c.params.caption || c.params.body?.content || c.params.action || "done";
  return step("←", callName(c), c.status ? String(c.status) : "cut", c.status === 429 ? "warn" : bad ? "bad" : "", left, time(c.at_ms, true), () => partsOf(c));
}
