// What a person can do with a message: a menu below it.
const QUICK = ["👍", "❤", "🔥", "😁", "🎉", "🤔", "👎", "👀"];
const isOwn = (message) => !message.author.is_bot && message.author.id === person;
function actionsFor(message) {
  const c = chatOf(chat), own = isOwn(message), actions = [];
  if (can("reply") && !message.is_ephemeral) actions.push(["Reply", () => aim("reply", message)]);
  if (can("edit") && own && !message.command) actions.push(["Edit", () => aim("edit", message)]);
  if (can("threads") && c.kind === "channel" && !message.is_ephemeral && !chatOf(message.id)) actions.push(["Start a thread", () => newThread(message)]);
  if (message.text) actions.push(["Copy text", () => navigator.clipboard?.writeText(message.text)]);
  if (!message.only_for && can("menus")) for (const command of commands.filter((one) => one.type === 3)) actions.push([`Apps: ${command.name}`, () => post("menu", {chat, message: message.id, person, command: command.name})]);
  if (can("menus") && !message.author.is_bot) for (const command of commands.filter((one) => one.type === 2)) actions.push([`Apps: ${command.name} (${message.author.name})`, () => post("menu", {chat, target: message.author.id, person, command: command.name})]);
  if (can("delete") && (own || (can("clear") && isMine(c)))) actions.push(["Delete", () => remove(message), "bad"]);
  return actions;
}
const hasActions = (message) => message.state !== "thinking" && (can("react") || actionsFor(message).length > 0);
let opener = null;
function openMenu(message, from) {
  const menu = $(".menu");
  opener = from;
  const items = actionsFor(message).map(([name, run, tone]) => el("button", {type: "button", role: "menuitem", class: tone ?? "", tabindex: "-1", onclick: () => { closeMenu(); run(); }}, name));
  const quick = can("react") && !message.is_ephemeral ? QUICK.map((emoji) => {
    const mine = (message.reacted[emoji] ?? []).includes(person);
    return el("button", {type: "button", role: "menuitemcheckbox", "aria-checked": String(mine), tabindex: "-1", "aria-label": `React with ${emoji}`, onclick: () => { closeMenu(); react(message, emoji); }}, emoji);
  }) : [];
  menu.replaceChildren(quick.length ? el("div", {class: "quick", role: "group", "aria-label": "Reactions"}, quick) : "", ...items);
  menu.hidden = false;
  place(menu, from.getBoundingClientRect());
  menu.querySelector("button")?.focus();
}
function place(menu, near) {
  const box = menu.getBoundingClientRect(), gap = 6;
  const below = near.bottom + gap + box.height <= innerHeight;
  menu.style.top = `${Math.max(gap, below ? near.bottom + gap : near.top - gap - box.height)}px`;
  menu.style.left = `${Math.max(gap, Math.min(near.left, innerWidth - box.width - gap))}px`;
}
function closeMenu() {
  if ($(".menu").hidden) return;
  $(".menu").hidden = true;
  (opener?.isConnected ? opener : box).focus();
}
$(".menu").addEventListener("keydown", (event) => {
  const items = [...$(".menu").querySelectorAll("button")], at = items.indexOf(document.activeElement);
  const move = {ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1}[event.key];
  if (move) { event.preventDefault(); items[(at + move + items.length) % items.length].focus(); }
  if (event.key === "Home" || event.key === "End") { event.preventDefault(); items.at(event.key === "Home" ? 0 : -1).focus(); }
  if (event.key === "Escape" || event.key === "Tab") { event.preventDefault(); closeMenu(); }
});
document.addEventListener("pointerdown", (event) => { if (!$(".menu").contains(event.target)) $(".menu").hidden = true; });
$(".log").addEventListener("contextmenu", (event) => {
  const row = event.target.closest("article"), message = row && messages.get(row.dataset.id);
  if (!message || !hasActions(message) || event.target.closest("a, audio, video") || String(getSelection())) return;
  event.preventDefault();
  openMenu(message, row.querySelector(".more") ?? row);
});
async function react(message, emoji) {
  const mine = (message.reacted[emoji] ?? []).includes(person);
  await post("react", {chat, message: message.id, person, emoji, remove: mine});
}
async function remove(message) { box.focus(); await post("delete", {chat, message: message.id, person}); }
