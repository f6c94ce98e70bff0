// The conversation: messages, refused calls between them, and days.
const drawn = new Map();   // key -> [fingerprint, element]: a screen reader does not repeat unchanged messages
const prints = new WeakMap();
const printOf = (message) => prints.get(message) ?? (prints.set(message, JSON.stringify(message)), prints.get(message));
function seen() {
  return [...messages.values()].filter((m) => (!m.only_for || m.only_for === person) && isInTopic(m.thread ?? 0)).sort((a, b) => a.seq - b.seq);
}
const isInTopic = (thread) => topic === null || topic === thread;
/** What stands in the log, in its order: albums as one unit, and refused calls at their instant. */
function units() {
  const all = [];
  for (const message of seen()) {
    const before = all.at(-1);
    if (message.album && before?.album === message.album) before.messages.push(message);
    else all.push({key: "m" + message.id, at: message.created_ms, album: message.album, messages: [message]});
  }
  const oldest = all.length && hasOlder ? all[0].at : 0;
  const refused = calls.filter((c) => isRefused(c) && c.at_ms >= oldest && isInTopic(Number(c.params.message_thread_id ?? 0))).map((c) => ({key: "c" + c.seq, at: c.at_ms, call: c}));
  return refused.length ? [...all, ...refused].sort((a, b) => a.at - b.at) : all;
}
const isRefused = (call) => call.status >= 400 || call.status === 0;
const dayOf = (ms) => new Date(ms).toDateString();
function dayNode(ms) {
  const key = "d" + dayOf(ms), [, old] = drawn.get(key) || [];
  if (old) return old;
  const label = dayOf(ms) === dayOf(Date.now() + ahead) ? "Today" : new Date(ms).toLocaleDateString([], {day: "numeric", month: "long"});
  const node = el("div", {class: "day"}, label);
  drawn.set(key, ["", node]);
  return node;
}
function unitNode(unit, before, after) {
  if (unit.call) return drawn.get(unit.key)?.[1] ?? remember(unit.key, "", drawRefused(unit.call));
  const author = unit.messages[0].author.id, authorOf = (one) => one?.messages?.[0].author.id;
  const next = authorOf(before) !== author, last = authorOf(after) !== author;
  const quoted = unit.messages[0].reply_to && messages.get(unit.messages[0].reply_to);
  const print = [person, topic, next, last, ...unit.messages.flatMap((m) => [printOf(m), stateOf(m), JSON.stringify(whyOf(m))]), quoted ? printOf(quoted) : ""].join("\u0000");
  const [old, node] = drawn.get(unit.key) || [];
  return old === print ? node : remember(unit.key, print, drawUnit(unit, next, last));
}
const remember = (key, print, node) => { drawn.set(key, [print, node]); return node; };
const older = el("button", {type: "button", class: "older", onclick: () => showOlder()}, "Show older messages");
function drawLog() {
  const log = $(".log"), isNew = log.dataset.chat !== platform + chat, low = isNew || isLow(log);
  const focused = log.contains(document.activeElement) ? document.activeElement.closest("article")?.dataset.id : null;
  const all = units(), nodes = hasOlder ? [older] : [];
  let day = "";
  all.forEach((unit, index) => {
    const isNewDay = day !== dayOf(unit.at);
    if (isNewDay) nodes.push(dayNode(unit.at));
    day = dayOf(unit.at);
    const after = all[index + 1];
    nodes.push(unitNode(unit, isNewDay ? null : all[index - 1], after));
  });
  patch($(".rows"), all.length ? nodes : [emptyNode()]);
  if (focused && !log.contains(document.activeElement)) log.querySelector(`article[data-id="${CSS.escape(focused)}"]`)?.focus();
  if (low) goLow();
  log.dataset.chat = platform + chat;
}
function goLow() { const log = $(".log"); log.dataset.low = "yes"; log.scrollTop = log.scrollHeight; }
// Pictures that arrive and rows that get their true height must not push the newest message out of sight.
new ResizeObserver(() => { if ($(".log").dataset.low === "yes") goLow(); }).observe($(".rows"));
new ResizeObserver(() => { if ($(".log").dataset.low === "yes") goLow(); }).observe($(".log"));
function emptyNode() {
  const bot = botOf(chatOf(chat));
  return el("div", {class: "empty"}, face(bot.name, "bot", true), el("b", {}, "Say hello to " + bot.name), can("commands") ? "Whatever you type is sent as a slash command, signed as Discord signs it." : "Your message goes the whole way: webhook, row, agent, reply.");
}
async function showOlder() {
  const log = $(".log"), [first] = seen(), wanted = platform + chat;
  if (!first || older.disabled) return;
  older.disabled = true;
  try {
    const from = Math.min(...[...messages.values()].map((m) => m.seq));
    const found = await get(`/${platform}/chats/${encodeURIComponent(chat)}?before=${from}`);
    if (wanted !== platform + chat) return;
    const height = log.scrollHeight, top = log.scrollTop;
    for (const m of found.messages) messages.set(m.id, m);
    hasOlder = found.has_older;
    log.dataset.low = "no";
    drawLog();
    log.scrollTop = top + log.scrollHeight - height;
  } catch (problem) { complain(`The older messages can't be read: ${problem.message}`); } finally { older.disabled = false; }
}
/** Forget the oldest messages of a long conversation, unless the person reads there. */
function trim() {
  if (messages.size <= KEEP || !isLow($(".log"))) return;
  const sorted = [...messages.values()].sort((a, b) => a.seq - b.seq);
  for (const m of sorted.slice(0, sorted.length - KEEP)) { messages.delete(m.id); drawn.delete("m" + m.id); deliveries.delete(m.id); whys.delete(placeOf(m.id)); }
  hasOlder = true;
}
function jumpTo(id) {
  const row = $(`.log article[data-id="${CSS.escape(id)}"]`);
  if (!row) return;
  $(".log").dataset.low = "no";
  row.scrollIntoView({block: "center"});
  row.focus();
}
function drawTyping() {
  clearTimeout(typing.timer);
  const left = typing.until - Date.now(), isHere = topic === null || (typing.thread ?? 0) === topic;
  $(".typing").replaceChildren(...(left > 0 && isHere ? [el("span", {class: "dots", "aria-hidden": "true"}, el("i"), el("i"), el("i")), `${botOf(chatOf(chat)).name} ${ACTIONS[typing.action] ?? "is typing"}…`] : []));
  if (left > 0) typing.timer = setTimeout(drawTyping, left + 20);
}
const ACTIONS = {upload_photo: "is sending a photo", upload_document: "is sending a file", upload_voice: "is sending a voice message", record_voice: "is recording", upload_video: "is sending a video"};
// A draft: the partial text of an answer that is being written. It goes when the message comes, or after its time.
function drawDrafts() {
  const now = Date.now();
  for (const [id, d] of drafts) if (d.until <= now) drafts.delete(id);
  const shown = [...drafts.values()].filter((d) => isInTopic(d.thread ?? 0));
  $(".draft").hidden = !shown.length;
  $(".draft").replaceChildren(...shown.map((d) => el("div", {class: "bubble"},
    el("div", {class: "body"}, d.text ? fromEntities(d.text, d.entities || []) : "thinking…"),
    el("div", {class: "meta"}, el("span", {class: "state"}, "draft"), d.can_stop ? el("button", {type: "button", onclick: async () => { if (await post("stop", {chat, person, draft: d.draft_id, thread: d.thread ?? null}) && !d.keep_on_stop) { drafts.delete(d.draft_id); drawDrafts(); } }}, "Stop") : null))));
  if (drafts.size) setTimeout(drawDrafts, 1000);
}
function draw() { drawSide(); drawHead(); drawLog(); drawTyping(); drawDrafts(); drawSteps(); }
