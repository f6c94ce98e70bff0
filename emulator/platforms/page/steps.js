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
function step(way, name, chip, tone, left, right, data, isOpen) {
  return el("details", {open: Boolean(isOpen)},
    el("summary", {}, el("span", {class: "way" + (way === "←" ? " out" : ""), "aria-hidden": "true"}, way), el("span", {class: "name", title: name}, name), el("span", {class: "chip " + tone}, chip), el("small", {}, el("span", {title: left}, left), el("span", {}, right))),
    el("pre", {}, JSON.stringify(data, null, 2)));
}
function deliveryStep(s, isOpen) {
  const d = s.data, good = d.state === "delivered", tone = good ? "" : d.state === "dropped" ? "bad" : d.attempts ? "warn" : "none";
  const words = d.state === "dropped" ? d.error || "given up" : d.error || (d.attempts ? (d.attempts > 1 ? `try ${d.attempts}` : "first try") : "on its way") + (d.took_ms !== null ? ` · ${took(d.took_ms)}` : "");
  const name = platform === "telegram" ? "webhook " + d.kind : d.kind === "press" ? "interaction button" : d.kind === "interaction" ? `interaction ${commandName(messages.get(d.message)?.command ?? "ask")}` : "interaction " + d.kind;
  return step("→", name, String(d.status ?? (d.attempts ? "failed" : "…")), tone, words, time(d.created_ms, true), d, isOpen);
}
function callStep(s) {
  const c = s.data, bad = isRefused(c);
  const left = bad ? whyRefused(c) : c.params.text || c.params.caption || c.params.body?.content || c.params.action || "done";
  return step("←", callName(c), c.status ? String(c.status) : "cut", c.status === 429 ? "warn" : bad ? "bad" : "", left, time(c.at_ms, true), {params: c.params, answer: c.answer});
}
