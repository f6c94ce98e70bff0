// One message: its text, why it stands where it stands, and its story as a timeline.
const STEPS = {message_received: "received, and stored", chain_step_start: "turn begun", tool: "used a tool", message_steered: "told to the turn that runs", message_edited: "edited by its sender", chain_step_done: "turn over", message_retry: "attempt failed, and is tried again", message_dead: "given up", message_released: "turn interrupted, runs again", message_cancelled: "cancelled", message_retried: "retried by hand", response_ready: "said", response_acked: "arrived", response_retry: "send failed, and is tried again", response_dead: "answer given up", response_outcome_unknown: "nobody knows whether it arrived", response_retried: "sent again by hand"};
async function story([id]) {
  const [why, message, turns] = await Promise.all([ask(`/api/messages/${quoted(id)}/why`).catch((error) => error.status === 404 ? ask(`/api/why?ref=${quoted(id)}`).then(([found]) => found) : Promise.reject(error)), ask(`/api/messages/${quoted(id)}`).catch(() => null), ask(`/api/messages/${quoted(id)}/turns`).catch(() => ({begun: [], calls: []}))]);
  if (!why) return [top("No such message", `Nothing is known of ${id}: it may have been deleted long ago.`)];
  const cost = why.usage.reduce((sum, one) => sum + (one.cost ?? 0), 0);
  const tokens = why.usage.reduce((sum, one) => sum + one.input + one.output + one.cacheRead + one.cacheWrite, 0);
  return [
    top(why.id, `${why.sender || "Somebody"}, on ${why.channel}${why.chatName && why.chatName !== why.sender ? ` in ${why.chatName}` : ""}, ${new Date(why.createdAt).toLocaleString()}`),
    el("section", {class: "panel", "aria-label": "Why"}, el("ul", {}, el("li", {class: "item"}, markOf({state: why.state}), el("div", {}, el("h2", {}, why.state.replaceAll("_", " ")), el("p", {}, why.reason)), el("div", {class: "acts"}, why.until ? el("span", {class: "until"}, "in ", until(why.until)) : null, message ? storyActs(message) : null, why.approval && !past ? el("a", {class: "act", href: "#/approvals"}, "Decide") : null)))),
    message ? el("section", {class: "panel", "aria-label": "Text"}, el("header", {}, el("h2", {}, message.sender), el("span", {}, `to ${message.agent}`)), el("pre", {class: "text"}, message.message || "(no text)")) : null,
    message ? el("section", {class: "panel", "aria-label": "Story"}, el("header", {}, el("h2", {}, "Story"), el("span", {}, [many(turns.begun.length || message.retryCount + (message.status === "completed" ? 1 : 0), "turn"), tokens ? `${tokens.toLocaleString("en")} tokens` : null, cost ? money(cost) : null].filter(Boolean).join(" · ")), past ? null : el("a", {href: `#/past/${message.createdAt + 1000}`}, "as it was then")), timeline(message, turns)) : null,
    message ? message.responses.map((one) => el("section", {class: "panel", "aria-label": `Response ${one.id}`}, el("header", {}, el("h2", {}, one.agent ?? "Postroom"), el("span", {}, `response ${one.id}, ${one.status}${one.lastError ? `: ${one.lastError}` : ""}`), one.status === "dead" ? el("div", {class: "acts"}, button("Send again", `Send again: response ${one.id}.`, [[`/api/responses/${one.id}/retry`, "POST"]])) : null), el("pre", {class: "text"}, one.message))) : null,
  ];
}
function storyActs(message) {
  if (message.status === "dead") return button("Retry", `Retry: ${message.messageId}.`, [[`/api/queue/dead/${message.id}/retry`, "POST"]]);
  if (message.status === "processing") return button("Stop", `Stop: ${message.messageId}.`, [[`/api/queue/processing/${message.id}/kill`, "POST"]]);
  if (message.status === "pending") return button("Cancel", `Cancel: ${message.messageId}.`, [[`/api/messages/${quoted(message.messageId)}/cancel`, "POST"]]);
  return null;
}
/** What happened, with the begins of turns and the tools in their places; of one instant in this order. */
function stepsOf(message, turns) {
  const begun = turns.begun.map((one) => ({type: "chain_step_start", timestamp: one.at, data: {reason: [one.attempt > 1 ? `attempt ${one.attempt}` : null, one.messages > 1 ? `${one.messages} messages together` : null].filter(Boolean).join(", ")}}));
  const calls = turns.calls.map((one) => ({type: "tool", timestamp: one.at, data: {reason: one.tool}}));
  const [received, ...others] = message.events;
  return [received, ...begun, ...calls, ...others].sort((a, b) => a.timestamp - b.timestamp);
}
function timeline(message, turns) {
  const events = stepsOf(message, turns), first = events[0].timestamp, last = Math.max(events.at(-1).timestamp, message.status === "processing" ? now() : 0), whole = Math.max(1, last - first);
  return el("ol", {class: "story"}, events.map((event, at) => {
    const next = events[at + 1]?.timestamp ?? last, took = next - event.timestamp;
    const kind = /dead|unknown/.test(event.type) ? "bad" : /retry|released/.test(event.type) ? "waits" : event.type === "chain_step_start" || event.type === "tool" ? "turn" : "";
    const more = event.data.reason ?? event.data.failure;
    const isNewDay = new Date(event.timestamp).toDateString() !== (at ? new Date(events[at - 1].timestamp).toDateString() : new Date(now()).toDateString());
    return el("li", {}, el("time", {class: "mono", datetime: new Date(event.timestamp).toISOString()}, isNewDay ? `${day(event.timestamp)} ` : "", clock(event.timestamp, true)), el("span", {}, STEPS[event.type] ?? event.type.replaceAll("_", " "), event.responseId ? ` (response ${event.responseId})` : "", more ? el("small", {}, more) : null),
      el("span", {class: "lane", "aria-hidden": "true"}, el("i", {class: kind, style: `left:${(event.timestamp - first) / whole * 100}%;width:${Math.max(.4, took / whole * 100)}%`})), el("span", {class: "took mono"}, took ? span(took) : ""));
  }));
}
