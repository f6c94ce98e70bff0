// The other pages: agents, approvals, what was not answered, the replica, search.
async function agents() {
  const [list, queues, budgets, totals] = await Promise.all([ask("/api/agents"), ask("/api/queue/agents"), ask("/api/budgets"), ask("/api/usage/totals").catch(() => [])]);
  const each = Array.isArray(list) ? list : Object.entries(list).map(([id, agent]) => ({id, ...agent}));
  return [top("Agents", "What each is, does now, and took from models this month."),
    el("section", {class: "panel", "aria-label": "Agents"}, el("ul", {}, each.map((agent) => agentRow(agent, queues, totals)))), moneyPanel(budgets)];
}
function agentRow(agent, queues, totals) {
  const now = queues.find((one) => one.agent === agent.id) ?? {pending: 0, processing: 0};
  const spent = (totals.totals ?? totals).filter((one) => one.agent === agent.id).reduce((sum, one) => sum + (one.cost ?? 0), 0);
  const row = el("li", {class: "item"});
  const pause = agent.paused ? button("Resume", `Resume ${agent.id}.`, [[`/api/agents/${quoted(agent.id)}/resume`, "POST"]], row)
    : button("Pause", `Pause ${agent.id}: its messages wait.`, [[`/api/agents/${quoted(agent.id)}/pause`, "POST", {reason: "paused on the page"}]], row);
  row.append(mark(agent.paused ? "paused" : now.processing ? "run" : "done"), el("div", {}, el("h3", {}, agent.name || agent.id, el("span", {}, ` · ${agent.id} · ${agent.provider}${agent.model ? ` ${agent.model}` : ""}${agent.default ? " · answers what names no agent" : ""}`)),
      el("p", {}, agent.paused ? `Paused since ${instant(agent.paused.since)}: ${agent.paused.reason}. ` : "", el("a", {href: `#/queue/running?agent=${quoted(agent.id)}`}, many(now.processing, "turn")), " now, ", el("a", {href: `#/queue/waiting?agent=${quoted(agent.id)}`}, `${now.pending} waiting`), spent ? `, ${money(spent)} this month` : "")), el("div", {class: "acts"}, pause));
  return row;
}
async function approvals() {
  const list = await ask("/api/approvals?limit=100");
  const open = list.filter((one) => one.status === "pending"), over = list.filter((one) => one.status !== "pending");
  return [top("Approvals", open.length ? `${many(open.length, "request waits", "requests wait")} for a yes or no.` : "No request waits."),
    el("section", {class: "panel", "aria-label": "Open"}, el("header", {}, el("h2", {}, "Open")), open.length ? el("ul", {}, open.map(approvalRow)) : el("p", {class: "none"}, "Nothing to decide.")),
    el("section", {class: "panel", "aria-label": "Decided"}, el("header", {}, el("h2", {}, "Decided")), over.length ? el("ul", {}, over.slice(0, 50).map(approvalRow)) : el("p", {class: "none"}, "Nothing yet."))];
}
function approvalRow(one) {
  const row = el("li", {class: "item"}), isOpen = one.status === "pending";
  const words = Object.entries(one.payload).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join("\n");
  row.append(mark(isOpen ? "ask" : "done"), el("div", {}, el("h3", {}, one.title, el("span", {}, ` · ${one.kind.replaceAll("_", " ")} · since ${instant(one.createdAt)}${one.held ? ` · ${many(one.held, "message waits", "messages wait")}` : ""}`)), words ? el("pre", {class: "text mono", style: "padding:4px 0"}, words) : null, isOpen ? null : el("p", {}, `${one.choice === null ? one.status : one.options[one.choice] ?? one.status}${one.decidedBy ? `, by ${one.decidedBy}` : ""}`)),
    el("div", {class: "acts"}, isOpen ? [el("span", {class: "until"}, "ends in ", until(one.expiresAt)), one.options.map((label, choice) => button(label, `${label}: ${one.title}.`, [[`/api/approvals/${quoted(one.approvalId)}/decide`, "POST", {choice}]], row, `act${choice ? "" : " yes"}`))] : null));
  return row;
}
async function dropped() {
  const list = await ask("/api/dropped?limit=100");
  return [top("Not answered", "What came in and was no message for an agent; never its text."),
    el("section", {class: "panel", "aria-label": "Dropped"}, list.length ? el("ul", {class: "rows"}, list.map((one) => el("li", {}, mark("planned"), time(one.createdAt), el("div", {}, el("div", {}, one.sender || one.senderId || "somebody", el("span", {class: "who"}, ` · ${one.channel}${one.chatName ? ` · ${one.chatName}` : ""} · ${one.code.replaceAll("_", " ")}`)), el("div", {class: "reason"}, one.reason)), null))) : el("p", {class: "none"}, "Everything that came in became a message."))];
}
async function replica() {
  const r = await ask("/api/replica");
  return [top("Replica", r.ok ? "Every commit reaches it." : r.problems[0]),
    r.problems.length ? el("ul", {class: "problem"}, r.problems.map((one) => el("li", {}, one))) : null,
    el("section", {class: "panel", "aria-label": "Position"}, el("header", {}, el("h2", {}, "Position")), el("dl", {class: "facts"}, fact("behind", r.behindSeconds === null ? "not known" : `${r.behindSeconds.toFixed(2)} s`), fact("here", el("code", {}, r.position ?? "–")), fact("in the bucket", el("code", {}, r.replicatedPosition ?? "–")), fact("bucket", el("code", {}, r.url ?? "–")), fact("epoch", el("code", {}, r.epoch ?? "–")))),
    el("section", {class: "panel", "aria-label": "Proof"}, el("header", {}, el("h2", {}, "Last proven restore")), r.provenRestore ? el("dl", {class: "facts"}, fact("when", `${span(now() - r.provenRestore.at)} ago`), fact("position", el("code", {}, r.provenRestore.position)), fact("compared", `${r.provenRestore.tables} tables, ${r.provenRestore.rows.toLocaleString("en")} rows`), fact("took", span(r.provenRestore.totalMs))) : el("p", {}, "None yet. emulator verify makes one.")),
    r.storage ? el("section", {class: "panel", "aria-label": "Bucket"}, el("header", {}, el("h2", {}, "In the bucket")), el("dl", {class: "facts"}, fact("files", r.storage.files.toLocaleString("en")), fact("bytes", r.storage.bytes.toLocaleString("en")), fact("older prefixes", r.storage.oldPrefixes))) : null];
}
async function search([words], query) {
  const before = new URLSearchParams(query).get("before");
  const [named, found] = await Promise.all([before ? [] : ask(`/api/why?ref=${quoted(words)}`).catch(() => []), words.length > 1 ? ask(`/api/search?q=${quoted(words)}&limit=50${before ? `&before=${before}` : ""}`) : {found: []}]);
  return [top(`“${words}”`, `${many(named.length + found.found.length, "hit")}${found.next ? before ? ", in some of the older lines" : ", among the newest lines" : ""}`),
    el("section", {class: "panel", "aria-label": "Hits"}, el("ul", {class: "rows"}, named.map((one) => el("li", {}, markOf(one), time(one.createdAt), el("div", {}, el("a", {href: `#/m/${quoted(one.id)}`}, one.id), el("div", {class: "reason"}, one.reason)))), found.found.map((one) => el("li", {}, mark("done"), time(one.createdAt), el("div", {}, el("div", {class: "text"}, el("a", {href: `#/m/${quoted(one.messageId)}`}, one.excerpt)), el("div", {class: "who"}, `${one.sender} · ${one.agent} · ${one.channel}`)))))),
    found.next ? el("a", {class: "more act", role: "button", href: `#/find/${quoted(words)}?before=${found.next}`}, "Search older lines") : null];
}
