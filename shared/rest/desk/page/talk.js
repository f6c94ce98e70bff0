// A conversation as people saw it on the left, and its rows at the same height on the right.
const PAGE = 60;   // lines
async function talk([id], query) {
  const words = new URLSearchParams(query).get("q"), chats = await ask("/api/lists/chats?limit=100");
  const chosen = id ? chats.find((chat) => chat.id === Number(id)) ?? await ask(`/api/chats/${quoted(id)}`) : chats[0];
  const asked = chosen ? `/api/chats/${chosen.id}/log?limit=${PAGE}${words ? `&q=${quoted(words)}` : ""}` : null, lines = asked ? await ask(asked) : [];
  return [
    top("Conversations", chosen ? `${nameOf(chosen)}, as its people saw it; beside each bubble what its rows say.` : "No chat yet: write to a bot, or begin one with POST /api/message."),
    el("div", {class: "talk"}, el("nav", {class: "places", "aria-label": "Chats"}, longList(chats, (chat) => placeOf(chat, chosen), null)), el("div", {}, chosen ? [within(chosen, words), words ? el("p", {class: "note"}, lines.length ? `${many(lines.length, "line")} with “${words}”. ` : `Nothing with “${words}” among the newest messages. `, el("a", {href: `#/c/${chosen.id}`}, "The whole conversation")) : null,
      lines.length || !words ? el("section", {class: "log", "aria-label": nameOf(chosen), tabindex: "0"}, olderButton(asked, lines), lines.length ? bubbles(lines) : el("p", {class: "note", style: "padding:14px 18px"}, "Nothing was said here lately.")) : null] : null)),
  ];
}
function placeOf(chat, chosen) {
  return el("li", {}, el("a", {href: `#/c/${chat.id}`, "aria-current": chat.id === chosen?.id ? "page" : null}, el("b", {}, el("span", {class: "name"}, nameOf(chat)), chat.lastAt ? time(chat.lastAt) : null),
    el("span", {class: "last"}, chat.lastText ? `${chat.lastBy}: ${chat.lastText}` : `${chat.channel} ${chat.isGroup ? "group" : "direct"}`), chat.open || chat.dead ? el("span", {}, chat.open ? `${chat.open} open` : "", chat.open && chat.dead ? ", " : "", chat.dead ? el("em", {}, `${chat.dead} dead`) : "") : null));
}
function within(chat, words) {
  const box = el("input", {type: "search", id: "within", placeholder: "Find in this conversation", autocomplete: "off", value: words ?? ""});
  return el("form", {class: "within", role: "search", "aria-label": "In this conversation", onsubmit: (event) => { event.preventDefault(); const wanted = box.value.trim(); location.hash = `#/c/${chat.id}${wanted.length > 1 ? `?q=${quoted(wanted)}` : ""}`; box.blur(); }}, el("label", {class: "hidden", for: "within"}, "Find words in this conversation"), box);
}
const nameOf = (chat) => chat.name || (chat.isGroup ? `group ${chat.platformId}` : `chat ${chat.platformId}`);
const bubbles = (lines) => [...lines].reverse().map(lineOf);
const olderButton = (asked, lines) => lines.length < PAGE ? null : el("button", {type: "button", class: "act more", onclick: (event) => older(event.target, asked, lines.at(-1).cursor)}, "Older lines");
async function older(button, asked, cursor) {
  const log = button.closest(".log");
  button.disabled = true;
  log.dataset.more = "yes";   // it is not drawn anew then: see HELD
  drawLive();
  const lines = await ask(`${asked}&cursor=${cursor}`).catch((error) => complain(error.message));
  if (!lines) { button.disabled = false; return; }
  const end = log.scrollHeight - log.scrollTop, next = olderButton(asked, lines);
  button.replaceWith(...[next, ...bubbles(lines)].flat(3).filter(Boolean));
  log.scrollTop = log.scrollHeight - end;
  (next ?? log).focus({preventScroll: true});
}
function lineOf(line) {
  if (line.what === "apart") return el("div", {class: "line waits"}, el("div", {class: "seen"}, el("div", {class: "apart"}, line.approval ? `${line.sender || "Somebody"} wrote here, and waits to be let in; what was said is not shown.` : `A message of ${line.sender || "somebody"} was not kept.`)), el("div", {class: "row"}, time(line.at, true), " ", line.reason, line.approval ? [" ", el("a", {href: "#/approvals"}, "Decide")] : null));
  if (line.what === "said") return line.said.map((said) => saidLine(said));
  const m = line.message;
  const isOpen = !["answered", "no_answer", "cancelled", "context"].includes(m.state);
  return [
    el("div", {class: `line${m.state === "dead" ? " dead" : isOpen ? " waits" : ""}`},
      el("div", {class: "seen"}, el("div", {class: "bubble"}, el("b", {}, m.sender), el("div", {class: "said"}, m.text || "(no text)"), time(m.createdAt))),
      el("div", {class: "row"}, route(m, line.said), el("a", {class: "mono", href: `#/m/${quoted(m.id)}`}, m.id), el("div", {}, [m.attempts ? many(m.attempts + (m.state === "dead" ? 0 : 1), "try", "tries") : null, m.cost ? money(m.cost) : null, `to ${m.agent}`].filter(Boolean).join(" · ")), (isOpen || !line.said.length) && !line.said.some((said) => said.reason === m.reason) ? el("div", {}, m.reason) : null, m.until ? ["in ", until(m.until)] : null)),
    line.said.map((said) => saidLine(said, m)),
  ];
}
function saidLine(said, message) {
  const isSent = said.state === "answered";
  const took = isSent && said.sentAt ? (message ? `${span(said.sentAt - message.createdAt)} after the question` : `sent in ${span(said.sentAt - said.createdAt)}`) : null;
  return el("div", {class: `line${isSent ? "" : said.state === "answer_dead" ? " dead" : " waits"}`},
    el("div", {class: "seen"}, el("div", {class: `bubble own${isSent ? "" : " is-unsent"}`}, el("b", {}, said.agent ?? "Postroom"), el("div", {class: "said"}, said.text || "(no text)"), time(said.sentAt ?? said.createdAt))),
    el("div", {class: "row"}, el("span", {class: "mono"}, `response ${said.id}`), el("div", {}, [took, said.attempts ? many(said.attempts + 1, "try", "tries") : null].filter(Boolean).join(" · ")), isSent ? null : el("div", {}, said.reason), said.until ? ["in ", until(said.until)] : null));
}
/** Four stations: received, turn, said, arrived. */
function route(m, said) {
  const arrived = said.length && said.every((one) => one.state === "answered");
  const at = arrived ? 4 : said.length ? 3 : m.state === "running" ? 1 : ["answered", "no_answer"].includes(m.state) ? 2 : 1;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 62 12"); svg.setAttribute("width", "62"); svg.setAttribute("height", "12"); svg.setAttribute("class", "route"); svg.setAttribute("role", "img"); svg.setAttribute("aria-label", {dead: "its turn failed", cancelled: "cancelled", running: "its turn runs", context: "received, asked for no answer"}[m.state] ?? ["received", "received, its turn is next", "its turn is over", "said, not arrived", "arrived"][at]);
  const draw = (name, values) => { const node = document.createElementNS("http://www.w3.org/2000/svg", name); for (const [key, value] of Object.entries(values)) node.setAttribute(key, value); svg.append(node); };
  draw("line", {x1: 6, x2: 56, y1: 6, y2: 6, stroke: "var(--hatch)", "stroke-dasharray": "1.5 3"});
  if (at > 1) draw("line", {x1: 6, x2: 6 + 16.6 * (at - 1), y1: 6, y2: 6, stroke: "var(--ink)", "stroke-width": 1.5});
  for (let station = 0; station < 4; station++) {
    const isDone = station < at, isNow = station === at && m.state !== "no_answer" && m.state !== "cancelled";
    if (m.state === "dead" && station === 1) draw("path", {d: "M22.6 2l4 4-4 4-4-4z", fill: "var(--bad)"});
    else draw("circle", {cx: 6 + 16.6 * station, cy: 6, r: isNow ? 4 : isDone ? 3 : 1.5, fill: isDone ? "var(--ink)" : isNow ? "none" : "var(--hatch)", ...(isNow && {stroke: "var(--brand)", "stroke-width": 2})});
  }
  return svg;
}
