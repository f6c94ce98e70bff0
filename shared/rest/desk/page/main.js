// Which page is shown, what keeps it live, and the keys. The last of a page: how many words its address needs behind its name.
const PAGES = [["", "Overview", "o", overview], ["c", "Conversations", "c", talk], ["queue", "Queue", "q", queue], ["agents", "Agents", "a", agents], ["schedules", "Schedules", "s", schedules], ["approvals", "Approvals", "y", approvals], ["dropped", "Not answered", "n", dropped], ["replica", "Replica", "r", replica], ["past", "The past", "p", pastPage], ["m", null, null, story, 1], ["find", null, null, search, 1], ["p", null, null, person, 2]];
const counts = {queue: 0, approvals: 0};
let isHeld = false, turn = 0, shownHash = null, due = 0, readAt = 0;

function here() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name = "", ...rest] = path.split("/").map(decoded).filter((word, at) => !at || word);
  return {page: PAGES.find(([each, , , , needed = 0]) => each === name && rest.length >= needed) ?? PAGES[0], rest, query};
}
function decoded(text) { try { return decodeURIComponent(text); } catch { return text; } }
function count(numbers) {
  Object.assign(counts, {queue: numbers.dead + numbers.deadAnswers, approvals: numbers.approvals});
  drawRail();
}
function drawRail() {
  const current = here().page[0];
  const scrolled = $("nav ul")?.scrollLeft ?? 0;
  renew($("nav"), [el("ul", {}, PAGES.filter(([, label]) => label).map(([name, label]) => el("li", {}, el("a", {href: `#/${name}`, "aria-current": name === current ? "page" : null}, label, counts[name] ? el("b", {class: name === "queue" ? "bad" : ""}, counts[name].toLocaleString("en")) : null))))]);
  const list = $("nav ul"), chosen = list.querySelector("[aria-current]");   // on a phone the list scrolls
  list.scrollLeft = scrolled;
  if (chosen && (chosen.offsetLeft < scrolled || chosen.offsetLeft + chosen.offsetWidth > scrolled + list.clientWidth)) list.scrollLeft = chosen.offsetLeft - 40;
}
/** Draws the page of the address anew. What it asked for before is of no use when the address has changed meanwhile. */
async function draw() {
  const mine = ++turn, {page, rest, query} = here(), isNew = shownHash !== location.hash;
  drawRail();
  if (isNew) known.of = null;
  try {
    await learn();
    const nodes = (await page[3](rest, query)).flat(3).filter(Boolean);
    if (mine !== turn || !isNew && (waiting || HELD())) return;   // a button was pressed meanwhile
    if (!isNew && isAimed()) { refresh(); return; }
    const scrolled = scrollY, log = $(".log"), read = log && log.scrollTop + log.clientHeight < log.scrollHeight - 40 ? log.scrollTop : null;
    renew($("#view"), [pastBar(), clockBar(), ...nodes].filter(Boolean));
    readAt = now();
    complain("");
    if (page[0]) document.title = `${page[1] ?? $("#view h1").textContent} · Postroom`;
    if (page[0]) askSeldom("/api/overview").then((found) => count(found.numbers), () => null);
    drawLive();
    $("#view").dataset.of = location.hash;
    if (isNew) { shownHash = location.hash; scrollTo(0, 0); $("#view").focus({preventScroll: true}); $(".log > :last-child")?.scrollIntoView({block: "end"}); }
    else { scrollTo(0, scrolled); if ($(".log")) $(".log").scrollTop = read ?? $(".log").scrollHeight; }
  } catch (error) {
    if (mine !== turn) return;
    if (error instanceof Refused && (error.status === 401 || error.status === 403)) { askForToken(error.message); return; }
    if (isNew) { readAt = 0; $("#view").replaceChildren(...[pastBar(), top("This page can't be shown")].filter(Boolean)); }
    drawLive();
    if (error instanceof Refused && !error.status && $(".away")) return;   // it tells
    complain(error instanceof Refused ? error.message : `This page can't be shown, through a fault of its own: ${error.message}`, error.status);
    if (!(error instanceof Refused)) throw error;   // for the console
  }
}
function complain(words, status = null) {
  $(".problem.main")?.remove();
  if (words) $("#view").prepend(el("p", {class: "problem main", role: "alert", "data-status": status}, words));
}
function askForToken(why) {
  shownHash = null;
  if ($("#token")) { $("#view .top p").textContent = why; return; }
  const box = el("input", {type: "password", id: "token", autocomplete: "current-password"});
  $("#view").replaceChildren(el("div", {class: "top"}, el("h1", {}, "This Postroom needs its token."), el("p", {role: "alert"}, why)), el("form", {class: "panel", style: "padding:16px;max-width:460px", onsubmit: (event) => { event.preventDefault(); const given = box.value.trim(); box.value = ""; if (/[^ -~]/.test(given)) askForToken("What was given has a character that no token has: copy the token alone, and nothing around it."); else { useToken(given); listen(); draw(); } }}, el("label", {for: "token"}, "The token; only this tab keeps it"), box, el("button", {class: "act yes"}, "Open")));
  box.focus();
  live("no", "not let in");
}

// live
let link = ["no", "connecting"];   // of the event stream
function live(...said) { link = said; drawLive(); }
function drawLive() {
  const [state, words] = link[0] === "yes" && isHeld ? ["held", "paused"] : link[0] === "yes" && $("#view [data-more]") ? ["held", "paused: more is shown"] : link[0] === "yes" && isSelected ? ["held", "paused: text is selected"] : link;
  $(".live").dataset.live = state;
  $(".live span").textContent = words;
  drawAway();
}
/** As long as the API can't be reached, a bar says how old the page is, and nothing can be changed. */
let lost = null;   // {since, again, isLong}: the event stream
function drawAway() {
  const isAway = Boolean(lost?.isLong), bar = $(".away");
  document.body.toggleAttribute("data-away", isAway);
  for (const one of document.querySelectorAll("#view button.act:not(.more)")) one.disabled = isAway;
  if (!isAway) bar?.remove();
  else if (bar) bar.querySelector("[data-until]").dataset.until = lost.again;
  else {
    $('.problem[data-status="0"]')?.remove();   // the bar says it
    $("#view").prepend(el("p", {class: "past away", role: "status"}, el("b", {}, `The API can't be reached since ${clock(lost.since, true)}.`), readAt ? ` This page is of ${clock(readAt, true)}.` : "", " Messages are still taken in, as long as ingest runs. The next try is in ", until(lost.again), "."));
  }
}
/** While a mouse moves over buttons, nothing moves under it. */
const AIM_MS = 2000;
let aimedAt = -AIM_MS;
const isAimed = () => performance.now() - aimedAt < AIM_MS;
addEventListener("pointermove", (event) => { if (event.pointerType === "mouse" && event.target.closest?.("#view :is(button, .acts)")) aimedAt = performance.now(); });
const HELD = () => isHeld || isSelected || document.hidden || document.activeElement?.closest("#view :is(input, select)") || $("#view [data-more]");
function refresh() {
  if (due) return;
  due = setTimeout(() => { due = 0; if (isAimed()) refresh(); else if (!HELD() && !waiting) draw(); }, 200);
}
const SILENT_MS = 40000;   // the API says something every 15 s
/** Text that is selected stays, to be copied. */
let isSelected = false;
document.addEventListener("selectionchange", () => {
  const selection = getSelection(), was = isSelected;
  isSelected = !selection.isCollapsed && $("#view").contains(selection.anchorNode);
  if (was !== isSelected) { drawLive(); if (was) refresh(); }
});
let hearing = null;
async function listen() {
  hearing?.abort();
  const own = hearing = new AbortController();
  for (let pause = 1000; !own.signal.aborted; pause = Math.min(30000, pause * 2)) {
    const silence = new AbortController();   // a network that is left ends no connection
    let timer = 0;
    const heard = () => { clearTimeout(timer); timer = setTimeout(() => silence.abort(), SILENT_MS); };
    heard();
    try {
      const answer = await fetch("/api/events/changes", {headers: headers(), signal: AbortSignal.any([own.signal, silence.signal])});
      if (answer.status === 401 || answer.status === 403) {
        const said = await answer.json();
        askForToken(said.error);
        return;
      }
      if (!answer.ok) throw new Error();
      if (lost) refresh();
      lost = null;
      live("yes", past ? "the past" : "live");
      pause = 1000;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = "", piece; !(piece = await reader.read()).done;) {
        heard();
        const frames = (rest + piece.value).split("\n\n");
        rest = frames.pop();
        if (frames.some((frame) => /^event:/m.test(frame))) refresh();
      }
    } catch { if (own.signal.aborted) return; } finally { clearTimeout(timer); }
    lost = {since: lost?.since ?? now(), again: now() + pause, isLong: lost !== null};   // an api that restarts is there again at once
    live("no", "connection lost");
    await new Promise((go) => setTimeout(go, pause));
  }
}
setInterval(() => { for (const node of document.querySelectorAll("[data-until]")) node.textContent = span(node.dataset.until - now()); }, 1000);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });

// keys
const KEYS = {"g then o c q a s y n r p": "go to a page", "/": "search", "j k": "move through the list", "Enter": "open", "z": "undo the last action", "l": "pause the page, resume it", "t": "light or dark", "?": "these keys"};
let isGoing = false;
addEventListener("keydown", (event) => {
  if (event.ctrlKey && event.key === "k") { event.preventDefault(); $("#find").focus(); return; }
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, select, textarea, dialog")) return;
  const key = event.key;
  if (localStorage.getItem("keys") === "off" && key !== "?") return;
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
function hold() { isHeld = !isHeld; drawLive(); announce(isHeld ? "Paused: the page shows nothing new." : "Live."); if (!isHeld) refresh(); }
function showKeys() {
  const box = $("dialog.form");
  box.replaceChildren(el("h2", {}, "Keys"), el("dl", {}, Object.entries(KEYS).map(([keys, what]) => [el("dt", {}, el("kbd", {}, keys)), el("dd", {}, what)])), el("p", {}, el("label", {}, el("input", {type: "checkbox", id: "single", checked: localStorage.getItem("keys") !== "off", onchange: (event) => localStorage.setItem("keys", event.target.checked ? "on" : "off")}), " Single keys do this")), el("button", {type: "button", class: "act", onclick: () => box.close()}, "Close"));
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
