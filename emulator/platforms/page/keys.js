// The keyboard, and the start.
$(".notice button").addEventListener("click", () => { notify(""); box.focus(); });
$("dialog.look button").addEventListener("click", () => $("dialog.look").close());
$("dialog.look").addEventListener("click", (event) => { if (event.target === event.currentTarget) event.currentTarget.close(); });
$("#back").addEventListener("click", () => { view("chats"); $(".chats [aria-current=true]")?.focus(); });
$("#show-events").addEventListener("click", () => { view("events"); $("#hide-events").focus(); });
$("#hide-events").addEventListener("click", () => { view("chat"); $("#show-events").focus(); });
$("#only-refused").addEventListener("change", drawSteps);
$(".tabs").append(...PLATFORMS.map((name) => el("button", {type: "button", id: "tab-" + name, "data-platform": name, onclick: () => goTo(name)}, el("i", {style: `background:${state[name].colour}`}), state[name].title)));
$(".people").addEventListener("keydown", (event) => {
  const move = {ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1}[event.key];
  if (!move || event.target.tagName === "SELECT") return;
  event.preventDefault();
  const people = here().people, at = people.findIndex((p) => p.id === person);
  bePerson(people[(at + move + people.length) % people.length].id);
  $(`.person[data-id="${person}"]`)?.focus();
});
// In the messages: arrows move from one to the next, Enter opens the actions, Escape goes back to the text.
$(".log").addEventListener("keydown", (event) => {
  const rows = [...$(".log").querySelectorAll("article")], at = rows.indexOf(event.target.closest("article"));
  if (["ArrowUp", "ArrowDown", "Home", "End"].includes(event.key) && rows.length && !event.altKey && !event.target.matches("select, input, audio, video")) {
    event.preventDefault();
    const to = {ArrowUp: at < 0 ? rows.length - 1 : at - 1, ArrowDown: at + 1, Home: 0, End: rows.length - 1}[event.key];
    rows[Math.max(0, Math.min(rows.length - 1, to))].focus();
  }
  if (event.key === "Enter" && event.target.matches("article")) { event.preventDefault(); event.target.querySelector(".more")?.click(); }
  if (event.key === "Escape") box.focus();
});
let touched = -Infinity;   // rows that get their true height scroll too: only a person leaves the newest message
for (const kind of ["wheel", "touchmove", "pointerdown", "keydown"]) $(".log").addEventListener(kind, () => { touched = performance.now(); }, {passive: true});
$(".log").addEventListener("scroll", () => {
  const log = $(".log");
  if (isLow(log)) log.dataset.low = "yes";
  else if (performance.now() - touched < 2000) log.dataset.low = "no";
  if (log.scrollTop < 60 && hasOlder && log.dataset.chat === platform + chat && log.scrollHeight > log.clientHeight) showOlder();
}, {passive: true});
document.addEventListener("keydown", (event) => {
  if (!event.altKey) return;
  const tab = PLATFORMS[Number(event.key) - 1];
  if (tab && !ofAccount) { event.preventDefault(); goTo(tab); }
  if (event.key === "ArrowUp" || event.key === "ArrowDown") {
    event.preventDefault();
    const own = chatsOf(person), at = own.findIndex((c) => c.id === chat);
    open(own[(at + (event.key === "ArrowDown" ? 1 : own.length - 1)) % own.length].id);
  }
});
const theme = (name) => { document.documentElement.dataset.theme = name; };
theme(asked.get("theme") || localStorage.getItem("postroom-theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
$("#theme").addEventListener("click", () => {
  theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  localStorage.setItem("postroom-theme", document.documentElement.dataset.theme);
});

const wantedChat = boot.transcript?.platform === platform && chatOf(boot.transcript.chat.id);
const wantedPerson = personOf(asked.get("person"));
const first = wantedPerson && chatsOf(wantedPerson.id).find(isMine);
chat = wantedChat && (asked.get("chat") || !first) ? wantedChat.id : (first ?? here().chats[0]).id;
const members = chatOf(chat).members;
person = wantedPerson && members.includes(wantedPerson.id) ? wantedPerson.id : members[0];
if (wantedChat?.id === chat) show(boot.transcript); else open(chat);
listen();
drawBots();
addEventListener("focus", drawBots);
