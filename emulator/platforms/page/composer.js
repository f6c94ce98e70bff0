// Where a person writes: text, files, a reply or an edit, and commands.
const box = $("#text");
let pending = [];   // {file, kind}
let aimed = null;   // {what: "reply" | "edit", message}
const fit = () => { box.style.height = "auto"; box.style.height = Math.min(box.scrollHeight, 160) + "px"; };
function drawComposer(c) {
  const isDiscord = platform === "discord";
  $(".slash").hidden = !isDiscord;
  $(".attach").hidden = !can("files");
  box.placeholder = isDiscord ? "prompt" : aimed?.what === "edit" ? "New text" : `Message as ${personOf(person).name}`;
  $("#files").disabled = !can("files");
}
function aim(what, message) {
  aimed = {what, message};
  if (what === "edit") { box.value = message.text; fit(); }
  drawTarget();
  box.focus();
}
function unaim() {
  if (!aimed) return;
  if (aimed.what === "edit") { box.value = ""; fit(); }
  aimed = null;
  drawTarget();
}
function drawTarget() {
  $(".target").hidden = !aimed;
  if (aimed) $(".target").replaceChildren(el("span", {}, el("b", {}, aimed.what === "reply" ? `Reply to ${aimed.message.author.name}` : "Edit"), " ", summary(aimed.message)), el("button", {type: "button", class: "round", "aria-label": "Cancel", onclick: () => { unaim(); box.focus(); }}, "✕"));
  const c = chatOf(chat);
  if (c) drawComposer(c);
}
// files
const WAYS = {image: ["photo", "document"], audio: ["audio", "voice", "document"], video: ["video", "document"]};
const LABELS = {photo: "as photo", document: "as file", audio: "as audio", voice: "as voice message", video: "as video"};
function attach(files) {
  if (!can("files")) return;
  for (const file of files) {
    const ways = platform === "telegram" ? WAYS[file.type.split("/")[0]] ?? [] : [];
    const first = /\.(ogg|oga|opus)$/i.test(file.name) && ways.includes("voice") ? "voice" : file.type === "image/gif" ? "" : ways[0] ?? "";
    pending.push({file, ways: file.type === "image/gif" ? ["", "document"] : ways, kind: first});
  }
  drawPending();
  box.focus();
}
function drawPending() {
  $(".pending").hidden = !pending.length;
  $(".pending").replaceChildren(...pending.map((one, index) => el("li", {}, el("b", {}, one.file.name), el("small", {}, bytes(one.file.size)),
    one.ways.length ? el("select", {"aria-label": `How to send ${one.file.name}`, onchange: (event) => { one.kind = event.target.value; }}, one.ways.map((way) => el("option", {value: way, selected: way === one.kind}, LABELS[way] ?? "as GIF"))) : null,
    el("button", {type: "button", class: "round", "aria-label": `Remove ${one.file.name}`, onclick: () => { pending.splice(index, 1); drawPending(); box.focus(); }}, "✕"))));
}
$("#files").addEventListener("change", (event) => { attach([...event.target.files]); event.target.value = ""; });
box.addEventListener("paste", (event) => { if (event.clipboardData.files.length) { event.preventDefault(); attach([...event.clipboardData.files]); } });
$("main").addEventListener("dragover", (event) => { if (event.dataTransfer.types.includes("Files")) event.preventDefault(); });
$("main").addEventListener("drop", (event) => { if (event.dataTransfer.files.length) { event.preventDefault(); attach([...event.dataTransfer.files]); } });
// sending
function where() {
  return {person, chat, thread: topic || null, reply_to: aimed?.what === "reply" ? aimed.message.id : null};
}
function formOf(text) {
  const form = new FormData();
  for (const [name, value] of Object.entries({...where(), text})) if (value !== null) form.append(name, value);
  form.append("kinds", JSON.stringify(pending.map((one) => one.kind)));
  for (const one of pending) form.append("file", one.file, one.file.name);
  return form;
}
async function send() {
  const text = box.value, files = pending, target = aimed;
  if ((!text.trim() && !files.length) || !chat) return;
  const body = files.length ? formOf(text) : target?.what === "edit" ? {chat, message: target.message.id, person, text} : {...where(), text};
  box.value = ""; pending = []; aimed = null;
  fit(); drawPending(); drawTarget(); drawCommands();
  $(".log").scrollTop = $(".log").scrollHeight;
  if (!await post(target?.what === "edit" && !files.length ? "edit" : "say", body)) {
    box.value = text; pending = files; aimed = target;
    fit(); drawPending(); drawTarget();
  }
  box.focus();
}
$(".composer").addEventListener("submit", (event) => { event.preventDefault(); send(); });
// the bot's commands, as it registered them
function drawCommands() {
  const typed = platform === "telegram" && box.value.match(/^\/(\w*)$/);
  const found = typed ? commands.filter((c) => c.command?.startsWith(typed[1])) : [];
  showCommands(found.map((c) => ({name: "/" + c.command, about: c.description, run: () => { box.value = `/${c.command}${isMine(chatOf(chat)) ? "" : "@" + botOf(chatOf(chat)).username} `; fit(); }})));
}
function showCommands(found) {
  const list = $(".commands");
  list.hidden = !found.length;
  box.setAttribute("aria-expanded", String(found.length > 0));
  list.replaceChildren(...found.map((c, index) => el("button", {type: "button", role: "option", tabindex: "-1", "aria-selected": String(index === 0), onclick: () => { showCommands([]); c.run(); box.focus(); }}, el("b", {}, c.name), " ", el("span", {}, c.about))));
}
function chooseCommand(event) {
  const items = [...$(".commands").children], at = items.findIndex((one) => one.getAttribute("aria-selected") === "true");
  if ($(".commands").hidden || !items.length) return false;
  const move = {ArrowDown: 1, ArrowUp: -1}[event.key];
  if (move) items.forEach((one, index) => one.setAttribute("aria-selected", String(index === (at + move + items.length) % items.length)));
  else if (event.key === "Enter" || event.key === "Tab") items[Math.max(at, 0)].click();
  else if (event.key === "Escape") showCommands([]);
  else return false;
  event.preventDefault();
  return true;
}
box.addEventListener("input", () => { fit(); drawCommands(); });
box.addEventListener("keydown", (event) => {
  if (chooseCommand(event)) return;
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); $(".composer").requestSubmit(); }
  if (event.key === "Escape") unaim();
  if (event.key === "ArrowUp" && !event.altKey && !box.value && can("edit")) {
    const own = seen().filter((m) => isOwn(m) && m.text).at(-1);
    if (own) { event.preventDefault(); aim("edit", own); }
  }
});
