"use strict";
// Text from people or the bot is put on the page as text, never as markup: el() takes texts and elements only.
const base = location.pathname.replace(/\/+$/, "");
const boot = JSON.parse(document.getElementById("boot").textContent);
const asked = new URLSearchParams(location.search);
const $ = (selector) => document.querySelector(selector);
const COLOURS = ["#2a74b5", "#b5511a", "#7a4fc9", "#b83280", "#2d7d46", "#8a6d1f"];
const KEEP = 2000;   // messages that the page holds; older ones are read again when somebody scrolls to them

let state = boot.state;
const PLATFORMS = Object.keys(state).filter((name) => name !== "bot");
let platform = PLATFORMS.includes(asked.get("platform")) ? asked.get("platform") : PLATFORMS[0];
let person = null, chat = null, topic = null;   // topic: null is every topic, 0 the General topic
let messages = new Map(), deliveries = new Map(), calls = [], commands = [], hasOlder = false;
let drafts = new Map();
let typing = {until: 0, timer: 0}, notice = 0;
const unread = new Map();

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}
let ahead = 0;   // of this browser's clock, in ms: the clock of the chats, which an emulator may have moved
const time = (ms, seconds) => new Date(ms).toLocaleTimeString([], {hour: "2-digit", minute: "2-digit", ...(seconds && {second: "2-digit"}), hour12: false});
const took = (ms) => ms < 10 ? `${ms.toFixed(1)} ms` : ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
const bytes = (size) => size < 1024 ? `${size} B` : size < 1048576 ? `${Math.round(size / 1024)} KB` : `${(size / 1048576).toFixed(1)} MB`;
function face(name, key, big) {
  let sum = 0;
  for (const letter of String(key)) sum = (sum * 31 + letter.charCodeAt(0)) % 997;
  return el("span", {class: big ? "face big" : "face", "aria-hidden": "true", style: `background:${key === "bot" ? "#0f766e" : COLOURS[sum % COLOURS.length]}`}, [...name][0]?.toUpperCase() ?? "?");
}

// who and where
const here = () => state[platform];
const can = (what) => here().can.includes(what);   // also how the page shows what is said: see PlatformFake.can
const chatOf = (id) => here().chats.find((c) => c.id === id);
const personOf = (id) => here().people.find((p) => p.id === id);
const chatsOf = (who) => here().chats.filter((c) => c.members.includes(who));
const isMine = (c) => c.kind === "private" || c.kind === "dm";
const botOf = (c) => c?.bot ?? state.bot;
const titleOf = (c) => isMine(c) ? botOf(c).name : (c.kind === "channel" ? "# " : "") + c.title;
const nameOf = (id) => personOf(id)?.name ?? botOf(chatOf(chat)).name;
const platformName = () => here().title;

// requests
async function get(path) {
  const answer = await fetch(base + path);
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error || `${answer.status}`);
  return body;
}
/** Send an action of a person; the answer, or null after a refusal, which the page then shows. */
async function post(what, body) {
  complain("");
  const isForm = body instanceof FormData;
  try {
    const answer = await fetch(`${base}/${platform}/${what}`, {method: "POST", ...(isForm ? {body} : {headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)})});
    const said = await answer.json().catch(() => ({}));
    if (answer.ok) return said;
    complain(said.error || `The emulator answered ${answer.status}.`);
  } catch { complain("The emulator can't be reached. Is it still running?"); }
  return null;
}
function complain(words) {
  $(".error").textContent = words;
  $(".error").hidden = !words;
}
function notify(words) {
  clearTimeout(notice);
  $(".notice span").textContent = words;
  $(".notice").hidden = !words;
  if (words) notice = setTimeout(() => notify(""), 12000);
}
const isLow = (list) => list.scrollHeight - list.scrollTop - list.clientHeight < 80;

// Draws once for many events that come together.
const due = new Set();
function soon(draw) {
  if (!due.size) setTimeout(() => { const now = [...due]; due.clear(); for (const each of now) each(); }, 16);
  due.add(draw);
}
