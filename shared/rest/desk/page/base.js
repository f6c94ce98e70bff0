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
/** The instant of which the page tells. */
const now = () => past ? past.at : Date.now();
const isToday = (ms) => new Date(ms).toDateString() === new Date(now()).toDateString();
const clock = (ms, seconds) => { const at = new Date(ms); return `${two(at.getHours())}:${two(at.getMinutes())}${seconds ? ":" + two(at.getSeconds()) : ""}`; };
const day = (ms) => new Date(ms).toLocaleDateString([], {day: "numeric", month: "short"});
const instant = (ms) => isToday(ms) ? clock(ms) : `${day(ms)} ${clock(ms)}`;
const time = (ms, seconds) => el("time", {class: "mono", datetime: new Date(ms).toISOString(), title: new Date(ms).toLocaleString()}, isToday(ms) ? clock(ms, seconds) : instant(ms));
/** The same words as the command line: "48 min 42 s". */
function span(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (ms < 1000 && ms >= 0) return `${Math.round(ms)} ms`;
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds % 3600 / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor(seconds % 86400 / 3600)} h`;
}
const many = (count, one, more = one + "s") => `${count.toLocaleString("en")} ${count === 1 ? one : more}`;
const money = (micro) => `$${(micro / 1e6).toFixed(micro && micro < 10000 ? 4 : 2)}`;
const mark = (kind, says) => el("span", {class: `mark ${kind}`, role: says ? "img" : null, "aria-label": says || null, "aria-hidden": says ? null : "true"});
/** Counts down or up by itself: see tick(). */
const until = (ms) => el("b", {class: "mono", "data-until": ms}, span(ms - now()));
/** A list of rows; of a long one the first hundred, and a button that shows a hundred more. */
function longList(items, rowOf, name = null) {
  const list = el("ul", {class: name}, items.slice(0, 100).map(rowOf));
  if (items.length <= 100) return list;
  let shown = 100;
  const more = el("button", {type: "button", class: "act more", onclick: () => { list.append(...items.slice(shown, shown += 100).map(rowOf)); if (shown >= items.length) more.remove(); }}, "Show more");
  return [list, more];
}

// requests
let token = sessionStorage.getItem("token");
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
