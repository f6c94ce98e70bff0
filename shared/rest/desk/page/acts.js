// What a button does: it is announced, waits for eight seconds in which it can be taken back, and is then sent.
const WAIT_MS = 8000;
let waiting = null;   // {says, requests, left, began, timer, rows}

/** A button that changes something; a copy of the past has none. */
const button = (label, says, requests, row = null, name = "act") => past ? null : el("button", {type: "button", class: name, onclick: () => act(says, requests, row ? [row] : [])}, label);
function act(says, requests, rows = []) {
  sendNow();
  waiting = {says, requests, left: WAIT_MS, began: 0, timer: 0, rows};
  for (const row of rows) row.classList.add("is-pending");
  const bar = $(".undo");
  bar.replaceChildren(el("span", {}, says), el("button", {type: "button", onclick: takeBack}, "Undo"), el("button", {type: "button", onclick: sendNow}, "Do it now"));
  bar.hidden = false;
  announce(`${says} Undo reverses it.`);
  run();
}
/** The time that is left runs, but for while the bar is pointed at or has the focus. */
function run() {
  if (!waiting) return;
  const at = performance.now();
  clearTimeout(waiting.timer);
  if (waiting.timer) waiting.left -= at - waiting.began;
  Object.assign(waiting, {began: at, timer: $(".undo").matches(":hover, :focus-within") ? 0 : setTimeout(sendNow, waiting.left)});
}
function end() {
  if (!waiting) return null;
  const ended = waiting;
  clearTimeout(ended.timer);
  waiting = null;
  $(".undo").hidden = true;
  return ended;
}
function takeBack() {
  const ended = end();
  if (!ended) return;
  for (const row of ended.rows) row.classList.remove("is-pending");
  announce("Taken back.");
}
async function sendNow() {
  const ended = end();
  if (!ended) return;
  const refused = [];
  for (const [path, method, body] of ended.requests) {
    try { await ask(path, method, body ?? null); } catch (error) { refused.push(error.message); }
  }
  for (const row of ended.rows) row.classList.remove("is-pending");
  if (refused.length) tellRefused(`${ended.says} ${refused.length === ended.requests.length ? "Refused" : `Refused for ${refused.length} of ${ended.requests.length}`}: ${refused[0]}`);
  else announce("Done.");
  seldom.clear();
  refresh();
}
/** It stays until it is closed: the person may be on another page by now, and each page is drawn anew all the time. */
function tellRefused(words) {
  const bar = $(".refused");
  bar.replaceChildren(el("span", {}, words), el("button", {type: "button", onclick: () => { bar.hidden = true; }}, "Close"));
  bar.hidden = false;
}
for (const name of ["mouseenter", "mouseleave", "focusin", "focusout"]) $(".undo").addEventListener(name, run);
addEventListener("pagehide", () => { if (waiting) takeBack(); });

const buttonsOf = (item, row) => item.acts.map((one) => button(one.label, `${one.label}: ${item.title}.`, one.paths.map((path) => [path, one.method, one.body]), row));
