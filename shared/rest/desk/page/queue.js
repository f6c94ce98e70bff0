// Messages and answers by what became of them; each row says why, until when, and has the act that helps.
const STATES = {waiting: "Waiting", running: "Running", sending: "To send", dead: "Dead", unsent: "Not sent", done: "Done"};
const MARKS = {planned: "planned", context: "planned", agent_paused: "paused", channel_paused: "paused", paused: "paused", dead: "dead", answer_dead: "dead", running: "run", answered: "done", no_answer: "done", cancelled: "done"};
const markOf = (row) => mark(MARKS[row.state] ?? "wait", row.state.replaceAll("_", " "));
const BULK = {
  waiting: [["Cancel", "POST", (row) => `/api/messages/${quoted(row.id)}/cancel`]],
  running: [["Stop", "POST", (row) => `/api/queue/processing/${row.row}/kill`]],
  dead: [["Retry", "POST", (row) => `/api/queue/dead/${row.row}/retry`], ["Delete", "DELETE", (row) => `/api/queue/dead/${row.row}`]],
  unsent: [["Send again", "POST", (row) => `/api/responses/${row.id}/retry`], ["Delete", "DELETE", (row) => `/api/responses/${row.id}`]],
};

async function queue([state = "waiting"], query) {
  const names = new URLSearchParams(query);
  const [found, {numbers}] = await Promise.all([ask(`/api/lists/${quoted(state)}?${new URLSearchParams({...Object.fromEntries(names), limit: "50"})}`), ask("/api/overview")]);
  const [rows, pill] = settled(found);
  const sizes = {waiting: numbers.waiting, running: numbers.running, sending: numbers.sending, dead: numbers.dead, unsent: numbers.deadAnswers};
  const isAnswers = state === "sending" || state === "unsent";
  return [
    top("Queue", "Every row says why it stands there."),
    el("div", {class: "tabs"}, el("nav", {"aria-label": "States", style: "display:contents"}, Object.entries(STATES).map(([name, label]) => el("a", {href: `#/queue/${name}`, "aria-current": name === state ? "page" : null}, label, sizes[name] ? el("b", {}, sizes[name].toLocaleString("en")) : null))), filterOf("agent", state, names, rows, "every agent"), filterOf("reason", state, names, rows, "every reason")),
    names.size ? el("p", {class: "note"}, `Only ${[...names].map(([name, value]) => `${name} ${value}`).join(", ")}. `, el("a", {href: `#/queue/${state}`}, "All")) : null,
    el("section", {class: "panel", "aria-label": STATES[state]}, pill, rows.length > 1 && BULK[state] && !past ? el("header", {}, el("h2", {}, `${found.length >= 50 && !pill ? "The newest " : ""}${rows.length}`), el("div", {class: "acts"}, BULK[state].map(([label, method, path]) => el("button", {type: "button", class: "act", onclick: () => act(`${label} ${rows.length} ${isAnswers ? "answers" : "messages"}.`, rows.map((row) => [path(row), method]), [...document.querySelectorAll("#view .rows li")])}, `${label} these ${rows.length}`)))) : null, rows.length
      ? el("ul", {class: "rows"}, rows.map((row) => isAnswers ? answerRow(row, state) : messageRow(row, state)))
      : el("p", {class: "none"}, state === "dead" || state === "unsent" ? "Nothing is dead." : "Nothing here.")),
    found.length >= 50 ? el("a", {class: "more act", role: "button", href: `#/queue/${state}?${new URLSearchParams({...Object.fromEntries(names), before: rows.at(-1).row ?? rows.at(-1).id})}`}, "Older ones") : null,
  ];
}
/** A choice of the agents or reasons among these rows; none where there is nothing to choose. */
function filterOf(name, state, names, rows, every) {
  const chosen = names.get(name), known = [...new Set([chosen, ...rows.map((row) => name === "reason" ? row.state : row.agent)].filter(Boolean))];
  if (known.length < 2 && !chosen) return null;
  return el("select", {"aria-label": `Only with this ${name}`, onchange: (event) => { const wanted = new URLSearchParams(names); event.target.value ? wanted.set(name, event.target.value) : wanted.delete(name); wanted.delete("before"); location.hash = `#/queue/${state}?${wanted}`; }},
    el("option", {value: ""}, every), known.map((one) => el("option", {value: one, selected: one === chosen}, name === "reason" ? one.replaceAll("_", " ") : one)));
}
function messageRow(row, state) {
  const line = el("li", {"data-key": row.id});
  const acts = state === "dead" ? [["Retry", `/api/queue/dead/${row.row}/retry`, "POST"], ["Delete", `/api/queue/dead/${row.row}`, "DELETE"]]
    : state === "running" ? [["Stop", `/api/queue/processing/${row.row}/kill`, "POST"]]
    : state === "waiting" ? [["Cancel", `/api/messages/${quoted(row.id)}/cancel`, "POST"]] : [];
  line.append(markOf(row), time(row.createdAt), el("div", {},
      el("div", {class: "text"}, el("a", {href: `#/m/${quoted(row.id)}`}, row.text || "(no text)")),
      el("div", {class: "who"}, `${row.sender} → ${row.agent} · ${row.channel}${row.chatName && row.chatName !== row.sender ? ` · ${row.chatName}` : ""}${row.cost ? ` · ${money(row.cost)}` : ""}`),
      el("div", {class: "reason"}, row.reason)),
    el("div", {class: "acts"}, row.until ? el("span", {class: "until"}, "in ", until(row.until)) : null, acts.map(([label, path, method]) => button(label, `${label}: ${row.id}.`, [[path, method]], line))));
  return line;
}
function answerRow(row, state) {
  const line = el("li", {"data-key": `response ${row.id}`});
  const acts = state === "unsent" ? [["Send again", `/api/responses/${row.id}/retry`, "POST"], ["Delete", `/api/responses/${row.id}`, "DELETE"]] : [];
  line.append(markOf(row), time(row.createdAt), el("div", {},
      el("div", {class: "text"}, row.chatId ? el("a", {href: `#/c/${row.chatId}`}, row.text || "(no text)") : row.text || "(no text)"),
      el("div", {class: "who"}, `${row.agent ?? "Postroom"} → ${row.chatName ?? row.sender} · ${row.channel}`),
      el("div", {class: "reason"}, row.reason)),
    el("div", {class: "acts"}, row.until ? el("span", {class: "until"}, "in ", until(row.until)) : null, acts.map(([label, path, method]) => button(label, `${label}: response ${row.id}.`, [[path, method]], line))));
  return line;
}
