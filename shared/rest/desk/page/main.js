// Which page is shown, what keeps it live, and the keys.
const PAGES = [["", "Overview", "o", overview], ["c", "Conversations", "c", talk], ["queue", "Queue", "q", queue], ["agents", "Agents", "a", agents], ["schedules", "Schedules", "s", schedules], ["approvals", "Approvals", "y", approvals], ["dropped", "Not answered", "n", dropped], ["replica", "Replica", "r", replica], ["past", "The past", "p", pastPage], ["m", null, null, story], ["find", null, null, search], ["p", null, null, person]];
const counts = {queue: 0, approvals: 0};
let isHeld = false, turn = 0, shownHash = null, due = 0;

function here() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name = "", ...rest] = path.split("/").map(decodeURIComponent);
  return {page: PAGES.find(([each]) => each === name) ?? PAGES[0], rest: rest.filter(Boolean), query};
}
function count(numbers) {
  Object.assign(counts, {queue: numbers.dead + numbers.deadAnswers, approvals: numbers.approvals});
  drawRail();
}
function drawRail() {
  const current = here().page[0];
  const scrolled = $("nav ul")?.scrollLeft ?? 0;
  $("nav").replaceChildren(el("ul", {}, PAGES.filter(([, label]) => label).map(([name, label]) => el("li", {}, el("a", {href: `#/${name}`, "aria-current": name === current ? "page" : null}, label, counts[name] ? el("b", {class: name === "queue" ? "bad" : ""}, counts[name].toLocaleString("en")) : null)))));
  const list = $("nav ul"), chosen = list.querySelector("[aria-current]");   // on a phone the list scrolls
  list.scrollLeft = scrolled;
  if (chosen && (chosen.offsetLeft < scrolled || chosen.offsetLeft + chosen.offsetWidth > scrolled + list.clientWidth)) list.scrollLeft = chosen.offsetLeft - 40;
}
/** Draws the page of the address anew. What it asked for before is of no use when the address has changed meanwhile. */
async function draw() {
  const mine = ++turn, {page, rest, query} = here(), isNew = shownHash !== location.hash;
  drawRail();
  try {
    if (past === undefined) past = pastOf((await ask("/api/past")).past);
    const nodes = (await page[3](rest, query)).flat(3).filter(Boolean);
    if (mine !== turn || !isNew && (waiting || HELD())) return;   // a button was pressed meanwhile
    const scrolled = scrollY, log = $(".log"), read = log && log.scrollTop + log.clientHeight < log.scrollHeight - 40 ? log.scrollTop : null, focused = document.activeElement?.closest("[data-key]")?.dataset.key;
    $("#view").replaceChildren(...[pastBar(), ...nodes].filter(Boolean));
    complain("");
    if (page[1] && page[0]) document.title = `${page[1]} · Postroom`;
    $("#view").dataset.of = location.hash;
    if (isNew) { shownHash = location.hash; scrollTo(0, 0); $("#view").focus({preventScroll: true}); $(".log > :last-child")?.scrollIntoView({block: "end"}); }
    else { scrollTo(0, scrolled); if ($(".log")) $(".log").scrollTop = read ?? $(".log").scrollHeight; if (focused) document.querySelector(`[data-key="${CSS.escape(focused)}"] button`)?.focus({preventScroll: true}); }
  } catch (error) {
    if (mine !== turn) return;
    if (error instanceof Refused && (error.status === 401 || error.status === 403)) askForToken(error.message);
    else complain(error instanceof Refused ? error.message : `This page can't be shown, through a fault of its own: ${error.message}`);
    if (!(error instanceof Refused)) throw error;   // for the console
  }
}
function complain(words) {
  $(".problem.main")?.remove();
  if (words) $("#view").prepend(el("p", {class: "problem main", role: "alert"}, words));
}
function askForToken(why) {
  const box = el("input", {type: "password", id: "token", autocomplete: "current-password"});
  $("#view").replaceChildren(el("div", {class: "top"}, el("h1", {}, "This postroom wants its token."), el("p", {}, why)), el("form", {class: "panel", style: "padding:16px;max-width:460px", onsubmit: (event) => { event.preventDefault(); token = box.value.trim(); sessionStorage.setItem("token", token); listen(); draw(); }}, el("label", {for: "token"}, "The token, kept by this tab alone"), box, el("button", {class: "act yes"}, "Open")));
  live("no", "not let in");
}

// live
function live(state, words) { $(".live").dataset.live = state; $(".live span").textContent = words; }
const HELD = () => isHeld || document.hidden || document.activeElement?.closest("#view :is(input, select)") || $(".log[data-older]");
function refresh() {
  if (due) return;
  due = setTimeout(() => { due = 0; if (!HELD() && !waiting) draw(); }, 200);
}
let hearing = null;
async function listen() {
  hearing?.abort();
  const own = hearing = new AbortController();
  for (let pause = 1000; !own.signal.aborted; pause = Math.min(30000, pause * 2)) {
    try {
      const answer = await fetch("/api/events/changes", {headers: headers(), signal: own.signal});
      if (answer.status === 401 || answer.status === 403) return;
      if (!answer.ok) throw new Error();
      live(isHeld ? "held" : "yes", isHeld ? "held" : past ? "the past" : "live");
      pause = 1000;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = "", piece; !(piece = await reader.read()).done;) {
        const frames = (rest + piece.value).split("\n\n");
        rest = frames.pop();
        if (frames.some((frame) => /^event:/m.test(frame))) refresh();
      }
    } catch { if (own.signal.aborted) return; }
    live("no", `connection lost since ${clock(Date.now())}, tries again`);
    await new Promise((go) => setTimeout(go, pause));
  }
}
setInterval(() => { for (const node of document.querySelectorAll("[data-until]")) node.textContent = span(node.dataset.until - now()); }, 1000);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });

// keys
const KEYS = {"g then o c q a s y n r p": "go to a page", "/": "search", "j k": "move through the list", "Enter": "open", "z": "take the last act back", "l": "hold everything, let go", "t": "light or dark", "?": "these keys"};
let isGoing = false;
addEventListener("keydown", (event) => {
  if (event.ctrlKey && event.key === "k") { event.preventDefault(); $("#find").focus(); return; }
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, select, textarea, dialog")) return;
  const key = event.key;
  if (isGoing) { isGoing = false; const page = PAGES.find(([, , each]) => each === key); if (page) { location.hash = `#/${page[0]}`; event.preventDefault(); return; } }
  if (key === "g") isGoing = true;
  else if (key === "/") { event.preventDefault(); $("#find").focus(); }
  else if (key === "j" || key === "k") move(key === "j" ? 1 : -1);
  else if (key === "z") takeBack();
  else if (key === "l") hold();
  else if (key === "t") turnTheme();
  else if (key === "?") showKeys();
});
function move(step) {
  const links = [...document.querySelectorAll("#view li a, #view li button")], firsts = [...document.querySelectorAll("#view li")].map((row) => row.querySelector("a, button")).filter(Boolean);
  const at = firsts.findIndex((one) => one.closest("li") === document.activeElement?.closest("li"));
  (firsts[at + step] ?? (step > 0 ? firsts[0] : firsts.at(-1)) ?? links[0])?.focus();
}
function hold() { isHeld = !isHeld; live(isHeld ? "held" : "yes", isHeld ? "held" : "live"); announce(isHeld ? "Held: nothing is drawn." : "Live."); if (!isHeld) refresh(); }
function showKeys() {
  const box = $("dialog.form");
  box.replaceChildren(el("h2", {}, "Keys"), el("dl", {}, Object.entries(KEYS).map(([keys, what]) => [el("dt", {}, el("kbd", {}, keys)), el("dd", {}, what)])), el("button", {type: "button", class: "act", onclick: () => box.close()}, "Close"));
  box.showModal();
}
function turnTheme() { theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"); }
function theme(name) { document.documentElement.dataset.theme = name; localStorage.setItem("theme", name); }
theme(localStorage.getItem("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
$("#theme").addEventListener("click", turnTheme);
$("#keys").addEventListener("click", showKeys);
$(".search").addEventListener("submit", (event) => { event.preventDefault(); const words = $("#find").value.trim(); if (words) location.hash = `#/find/${quoted(words)}`; });
$("#where").textContent = location.host;
addEventListener("hashchange", draw);
draw();
listen();
