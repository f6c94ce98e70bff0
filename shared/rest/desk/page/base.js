// Small things that every page uses: nodes, words for instants and amounts, requests.
const $ = (selector) => document.querySelector(selector);
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}
const two = (number) => String(number).padStart(2, "0");
let past;   // what a copy of the past is of; null: the database lives; undefined: not known yet
let ahead = 0;   // of this browser's clock, in ms: the clock by which the rows are
/** The instant of which the page tells. */
const now = () => past ? past.at : Date.now() + ahead;
/** Learns what the database is, and what the time is there: now and then, as an emulator's clock may be moved. */
let learnt;
async function learn() {
  const found = await askSeldom("/api/past");
  if (found === learnt) return;
  [learnt, past, ahead] = [found, found.past, found.past ? 0 : found.now - Date.now()];
}
const isToday = (ms) => new Date(ms).toDateString() === new Date(now()).toDateString();
const clock = (ms, seconds) => { const at = new Date(ms); return `${two(at.getHours())}:${two(at.getMinutes())}${seconds ? ":" + two(at.getSeconds()) : ""}`; };
const day = (ms) => new Date(ms).toLocaleDateString([], {day: "numeric", month: "short"});
const instant = (ms) => isToday(ms) ? clock(ms) : `${day(ms)} ${clock(ms)}`;
const time = (ms, seconds) => el("time", {class: "mono", datetime: new Date(ms).toISOString(), title: new Date(ms).toLocaleString()}, isToday(ms) ? clock(ms, seconds) : instant(ms));
const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
/** The same words as the command line: "48 min 42 s", "3 d"; but for less than a second. */
function span(ms) {
  if (ms < 1000 && ms > 0) return `${Math.floor(ms)} ms`;
  let left = Math.max(0, Math.floor(ms / 1000));
  const parts = UNITS.map(([unit, size]) => { const count = Math.floor(left / size); left %= size; return count ? `${count} ${unit}` : null; });
  return parts.filter(Boolean).slice(0, 2).join(" ") || "0 s";
}
const many = (count, one, more = one + "s") => `${count.toLocaleString("en")} ${count === 1 ? one : more}`;
const money = (micro) => `$${(micro / 1e6).toFixed(micro && micro < 10000 ? 4 : 2)}`;
const mark = (kind, says) => el("span", {class: `mark ${kind}`, role: says ? "img" : null, "aria-label": says || null, "aria-hidden": says ? null : "true"});
/** Counts down or up by itself: see tick(). */
const until = (ms) => el("b", {class: "mono", "data-until": ms}, span(ms - now()));
/** Draws *box* anew with these nodes. What had the focus there, or was scrolled, is so in what takes its place. */
function renew(box, nodes) {
  const old = document.activeElement, hadFocus = old !== box && box.contains(old);
  const scrolled = [".places", ".places ul", ".calendar"].map((name) => [name, box.querySelector(name)]).filter(([, node]) => node);
  const places = scrolled.map(([name, node]) => [name, node.scrollLeft, node.scrollTop]);
  box.replaceChildren(...nodes);
  for (const [name, left, top] of places) box.querySelector(name)?.scrollTo(left, top);
  if (hadFocus) (twinOf(old, box) ?? box).focus({preventScroll: true});
}
function twinOf(old, box) {
  const key = old.closest("[data-key]")?.dataset.key, row = key ? box.querySelector(`[data-key="${CSS.escape(key)}"]`) : box;
  const isLike = (one) => ["href", "aria-label"].every((name) => one.getAttribute(name) === old.getAttribute(name)) && (one.tagName !== "BUTTON" || one.textContent === old.textContent);
  return [...row?.querySelectorAll(old.tagName) ?? []].find(isLike);
}
/** A list of rows; of a long one the first hundred, and a button that shows a hundred more. */
function longList(items, rowOf, name = null) {
  const list = el("ul", {class: name}, items.slice(0, 100).map(rowOf));
  if (items.length <= 100) return list;
  let shown = 100;
  const more = el("button", {type: "button", class: "act more", onclick: () => {
    const added = items.slice(shown, shown += 100).map(rowOf);
    list.append(...added);
    list.dataset.more = "yes";   // it is not drawn anew then: see HELD
    drawLive();
    if (shown >= items.length) { more.remove(); added[0].querySelector("a, button")?.focus(); }
  }}, "Show more");
  return [list, more];
}
/** Those rows of a list that are shown, and a pill: new rows wait behind it, as they would move the others. */
let known = {of: null, keys: new Set()};
function settled(found) {
  const keyOf = (row) => String(row.id);
  if (known.of !== location.hash) known = {of: location.hash, keys: new Set(found.map(keyOf))};
  const first = found.findIndex((row) => known.keys.has(keyOf(row))), rows = found.slice(Math.max(first, 0)), count = found.length - rows.length;
  for (const row of rows) known.keys.add(keyOf(row));
  return [rows, count ? el("div", {class: "pill"}, el("button", {type: "button", onclick: () => { known.of = null; draw(); }}, many(count, "new row"))) : null];
}

// requests
let token = sessionStorage.getItem("token");
/** From here on everything is asked with this token; what was asked with another one answers nobody. */
function useToken(given) {
  token = given;
  sessionStorage.setItem("token", token);
  seldom.clear();
}
const headers = () => token ? {Authorization: `Bearer ${token}`} : {};
class Refused extends Error { constructor(status, sentence) { super(sentence); this.status = status; } }
async function ask(path, method = "GET", body = null) {
  const given = body === null ? {} : {body: JSON.stringify(body)};
  const answer = await fetch(path, {method, headers: {...headers(), ...(body === null ? {} : {"Content-Type": "application/json"})}, ...given}).catch(() => { throw new Refused(0, "The API can't be reached. Messages are still taken in, as long as ingest runs. This page tries again."); });
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, said.error || `The API answered ${answer.status}.`);
  return said;
}
const seldom = new Map();
/** What changes slowly or takes long to read: an answer stands for fifteen seconds. */
function askSeldom(path) {
  const last = seldom.get(path);
  if (last && Date.now() - last.at < 15000) return last.answer;
  const answer = ask(path);
  seldom.set(path, {at: Date.now(), answer});
  answer.catch(() => seldom.delete(path));
  return answer;
}
const quoted = encodeURIComponent;
function announce(words) { $("#says").textContent = words; }
