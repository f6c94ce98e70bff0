// Where a person writes: text, files, a reply or an edit, and commands.
const box = $("#text");
let pending = [];   // {file, kind}
let aimed = null;   // {what: "reply" | "edit", message}
const fit = () => { box.style.height = "auto"; box.style.height = Math.min(box.scrollHeight, 160) + "px"; };
function drawComposer(c) {
  const hasCommands = can("commands") && aimed?.what !== "edit";
  $(".slash").hidden = !hasCommands;
  $(".attach").hidden = !can("files");
  if (hasCommands) { drawDiscord(); return; }
  box.placeholder = aimed?.what === "edit" ? "New text" : `Message as ${personOf(person).name}`;
  $("#files").disabled = !can("files");
}
let unsent = "";   // what stood in the field before an edit, and comes back after it
function aim(what, message) {
  if (aimed?.what === "edit") box.value = unsent;
  unsent = box.value;
  aimed = {what, message};
  if (what === "edit") box.value = message.text;
  fit();
  drawTarget();
  box.focus();
}
function unaim() {
  if (!aimed) return;
  if (aimed.what === "edit") { box.value = unsent; fit(); }
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
    const ways = can("ways") ? WAYS[file.type.split("/")[0]] ?? [] : [];
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
function formOf(text, more) {
  const form = new FormData(), fields = {...where(), text, ...more};
  if (fields.options) fields.options = JSON.stringify(fields.options);
  for (const [name, value] of Object.entries(fields)) if (value !== null) form.append(name, value);
  form.append("kinds", JSON.stringify(pending.map((one) => one.kind)));
  for (const one of pending) form.append("file", one.file, one.file.name);
  return form;
}
async function send() {
  const text = box.value, files = pending, target = aimed, isEdit = target?.what === "edit", more = can("commands") && !isEdit ? discordBody(text) : {};
  if (!more || (!text.trim() && !files.length && !more.command) || !chat) return;
  const body = files.length ? formOf(text, more) : isEdit ? {chat, message: target.message.id, person, text} : {...where(), text, ...more};
  box.value = isEdit ? unsent : ""; pending = []; aimed = null;
  fit(); drawPending(); drawTarget(); drawCommands();
  goLow();
  box.focus();   // now: the person may be elsewhere when the answer comes
  if (!await post(isEdit && !files.length ? "edit" : "say", body)) {
    if (isEdit && !aimed) { unsent = box.value; box.value = text; } else box.value = [text, box.value].filter(Boolean).join("\n");   // what was written meanwhile stays
    pending = [...files, ...pending]; aimed ??= target;
    fit(); drawPending(); drawTarget();
  }
}
$(".composer").addEventListener("submit", (event) => { event.preventDefault(); send(); });
// Discord: a person uses a command of the app, or writes plain text, which only a Gateway connection carries.
const ASK = {name: "ask", path: "ask", options: [{name: "prompt", type: 3, required: true}], isBuiltIn: true};
const PLAIN = {name: "", path: "", options: [], isPlain: true};
let chosen = null;   // the command; null is the first, or /ask if the app registered none
/** Every slash command by its path; a subcommand has a path of its own. */
function slashCommands() {
  const flat = (command, path) => {
    const groups = (command.options ?? []).filter((o) => o.type === 1 || o.type === 2);
    return groups.length ? groups.flatMap((o) => flat(o, `${path} ${o.name}`)) : [{...command, path, options: command.options ?? []}];
  };
  const found = commands.filter((c) => (c.type ?? 1) === 1).flatMap((c) => flat(c, c.name));
  return found.length ? found : [ASK];
}
const current = () => aimed?.what === "reply" ? PLAIN : chosen ?? slashCommands().find((c) => c.path === "ask") ?? slashCommands()[0];
/** The option that the text field fills: the first that takes a text. */
const mainOption = (command) => command.options.find((o) => o.type === 3 && !o.choices) ?? null;
function choose(command) {
  chosen = command && (command.isPlain ? PLAIN : slashCommands().find((c) => c.path === command.path) ?? null);
  if (can("commands") && chatOf(chat)) drawDiscord();
}
let optionsFor = "";
function drawDiscord() {
  const command = current(), main = mainOption(command);
  $(".slash").textContent = command.isPlain ? "text" : "/" + command.path;
  $(".slash").setAttribute("aria-label", command.isPlain ? "Plain text; choose a command" : `Command /${command.path}; choose another`);
  box.placeholder = command.isPlain ? "A message, which reaches the bot through the Gateway only" : main ? main.name : "no text";
  const print = platform + chat + JSON.stringify(command);
  if (print === optionsFor) return;
  optionsFor = print;
  const others = command.options.filter((o) => o !== main && o.type !== 11);
  $(".options").hidden = !others.length;
  $(".options").replaceChildren(...others.map((o) => optionNode(command, o)));
}
function optionNode(command, o) {
  const name = o.required ? `${o.name} *` : o.name, known = {name: o.name, title: o.description};
  const list = (values) => el("select", known, o.required ? null : el("option", {value: ""}, ""), values.map(([value, label]) => el("option", {value}, label)));
  let node;
  if (o.choices) node = list(o.choices.map((c) => [c.value, c.name]));
  else if (o.type === 5) node = list([["true", "yes"], ["false", "no"]]);
  else if (o.type === 6 || o.type === 9) node = list(here().people.map((p) => [p.id, p.name]));
  else if (o.type === 7) node = list(chatsOf(person).filter((c) => !isMine(c)).map((c) => [c.id, titleOf(c)]));
  else {
    node = el("input", {...known, autocomplete: "off", inputmode: o.type === 3 ? null : "decimal", onkeydown: (event) => { if (event.key === "Enter") { event.preventDefault(); send(); } }});
    if (o.autocomplete) return el("label", {}, name, node, suggest(node, command, o));
  }
  return el("label", {}, name, node);
}
/** What the app suggests for an option, asked while the person types. */
function suggest(node, command, option) {
  const list = el("datalist", {id: `suggest-${option.name}`});
  node.setAttribute("list", list.id);
  let timer = 0, last = 0;
  const look = async () => {
    const number = ++last, found = await suggestions(command, option, node.value);
    if (number === last && found) list.replaceChildren(...found.choices.map((c) => el("option", {value: c.value}, c.name)));
  };
  node.addEventListener("focus", look);
  node.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(look, 250); });
  return list;
}
const suggestions = (command, option, value) => post("choices", {chat, person, command: command.path, focused: option.name, options: {...optionValues(), [option.name]: value}});
let asking = 0;
/** The same for the option that the text field fills. */
async function suggestText() {
  const command = current(), main = mainOption(command), number = ++asking;
  if (!main?.autocomplete || box.value.startsWith("/")) return;
  const found = await suggestions(command, main, box.value);
  if (number === asking && found && document.activeElement === box) showCommands(found.choices.map((c) => ({name: c.name, about: "", run: () => { box.value = c.value; fit(); }})));
}
const optionValues = () => Object.fromEntries([...$(".options").querySelectorAll("input, select")].filter((one) => one.value !== "").map((one) => [one.name, one.value]));
function discordBody(text) {
  const command = current(), main = mainOption(command);
  if (command.isPlain) return {plain: true};
  const typed = text.match(/^\/([\w-]+)(?:\s|$)/);
  if (typed && typed[1] !== command.path) {
    const other = slashCommands().find((c) => c.path === typed[1]);
    if (other) { choose(other); box.value = text.slice(typed[0].length); fit(); if (!box.value) return null; return discordBody(box.value); }
  }
  if (command.isBuiltIn) return {};
  return {command: command.path, options: {...optionValues(), ...(main && text ? {[main.name]: text} : {})}};
}
$(".slash").addEventListener("click", () => showCommands($(".commands").hidden ? slashChoices("") : []));
function slashChoices(typed) {
  const found = slashCommands().filter((c) => c.path.startsWith(typed)).map((c) => ({name: "/" + c.path, about: c.description, run: () => { choose(c); if (/^\/\S*$/.test(box.value)) box.value = ""; }}));
  const plain = {name: "Plain text", about: "reaches the bot only through the Gateway relay", run: () => { choose(PLAIN); if (/^\/\S*$/.test(box.value)) box.value = ""; }};
  return typed ? found : [...found, plain];
}
// the bot's commands, as it registered them
function drawCommands() {
  if (can("commands")) {
    const slash = box.value.match(/^\/([\w-]*)$/);
    showCommands(slash && aimed?.what !== "edit" ? slashChoices(slash[1]) : []);
    suggestText();
    return;
  }
  const typed = box.value.match(/^\/(\w*)$/);
  const found = typed ? commands.filter((c) => c.command?.startsWith(typed[1])) : [];
  showCommands(found.map((c) => ({name: "/" + c.command, about: c.description, run: () => { box.value = `/${c.command}${isMine(chatOf(chat)) ? "" : "@" + botOf(chatOf(chat)).username} `; fit(); }})));
}
function showCommands(found) {
  const list = $(".commands");
  list.hidden = !found.length;
  $(".slash").setAttribute("aria-expanded", String(found.length > 0));
  list.replaceChildren(...found.map((c, index) => el("button", {type: "button", role: "option", tabindex: "-1", "aria-selected": String(index === 0), onclick: () => { showCommands([]); c.run(); box.focus(); }}, el("b", {}, c.name), " ", el("span", {}, c.about))));
}
function chooseCommand(event) {
  const items = [...$(".commands").children], at = items.findIndex((one) => one.getAttribute("aria-selected") === "true");
  if ($(".commands").hidden || !items.length) return false;
  const move = {ArrowDown: 1, ArrowUp: -1}[event.key];
  if (move) items.forEach((one, index) => one.setAttribute("aria-selected", String(index === (at + move + items.length) % items.length)));
  else if (event.key === "Tab" || (event.key === "Enter" && (!can("commands") || box.value.startsWith("/")))) items[Math.max(at, 0)].click();
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
