// What a button does: it is announced, waits for eight seconds in which it can be taken back, and is then sent.
const WAIT_MS = 8000;
let waiting = null;   // {says, requests, left, began, timer, rows}

/** A button that changes something; a copy of the past has none. */
const button = (label, says, requests, row = null, name = "act") => past ? null : el("button", {type: "button", class: name, onclick: () => act(says, requests, row ? [row] : [])}, label);
function act(says, requests, rows = []) {
  sendNow();
  waiting = {says, requests, left: WAIT_MS, began: Date.now(), timer: 0, rows};
  for (const row of rows) row.classList.add("is-pending");
  const bar = $(".undo");
  bar.replaceChildren(el("span", {}, says), el("button", {type: "button", onclick: takeBack}, "Undo"), el("button", {type: "button", onclick: sendNow}, "Do it now"));
  bar.hidden = false;
  announce(`${says} Undo takes it back.`);
  run();
}
const run = () => { if (waiting) { waiting.began = Date.now(); waiting.timer = setTimeout(sendNow, waiting.left); } };
const rest = () => { if (waiting) { clearTimeout(waiting.timer); waiting.left -= Date.now() - waiting.began; waiting.began = Date.now(); } };
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
  complain(refused.length ? `${many(refused.length, "request was", "requests were")} refused: ${refused[0]}` : "");
  if (!refused.length) announce("Done.");
  refresh();
}
// It stands still while it is pointed at, or has the focus.
for (const name of ["mouseenter", "focusin"]) $(".undo").addEventListener(name, rest);
for (const name of ["mouseleave", "focusout"]) $(".undo").addEventListener(name, run);
addEventListener("pagehide", () => { if (waiting) takeBack(); });

const buttonsOf = (item, row) => item.acts.map((one) => button(one.label, `${one.label}: ${item.title}.`, one.paths.map((path) => [path, one.method, one.body]), row));
