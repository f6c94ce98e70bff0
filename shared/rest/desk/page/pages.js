// The other pages: agents, approvals, what was not answered, the replica, search.
async function agents() {
  const [list, queues, budgets, month, today, running] = await Promise.all([ask("/api/agents"), ask("/api/queue/agents"), askSeldom("/api/budgets"), askSeldom("/api/usage/totals").catch(() => []), askSeldom(`/api/usage/totals?since=${new Date(now()).setHours(0, 0, 0, 0)}`).catch(() => []), ask("/api/lists/running?limit=100")]);
  const each = Object.entries(list).map(([id, agent]) => ({id, ...agent}));
  return [top("Agents", "What each is, does now, and took from models this month."),
    el("section", {class: "panel", "aria-label": "Agents"}, el("header", {}, el("h2", {}, many(each.length, "agent"))), el("ul", {}, each.map((agent) => agentRow(agent, queues, {month, today}, running.filter((row) => row.agent === agent.id))))), moneyPanel(budgets)];
}
function agentRow(agent, queues, spent, running) {
  const open = queues.find((one) => one.agent === agent.id) ?? {pending: 0, processing: 0};
  const cost = (totals) => totals.filter((one) => one.agent === agent.id).reduce((sum, one) => sum + (one.cost ?? 0), 0);
  const [today, month] = [cost(spent.today), cost(spent.month)];
  const row = el("li", {class: "item", "data-key": agent.id});
  const pause = agent.paused?.code === "budget" ? null : agent.paused ? button("Resume", `Resume ${agent.id}.`, [[`/api/agents/${quoted(agent.id)}/resume`, "POST"]], row)
    : button("Pause", `Pause ${agent.id}: its messages wait.`, [[`/api/agents/${quoted(agent.id)}/pause`, "POST", {reason: "paused on the page"}]], row);
  row.append(mark(agent.paused ? "paused" : open.processing ? "run" : "done"), el("div", {}, el("h3", {}, agent.name || agent.id, el("span", {}, ` · ${agent.name && agent.name !== agent.id ? `${agent.id} · ` : ""}${agent.provider}${agent.model ? ` ${agent.model}` : ""}${agent.default ? " · answers what names no agent" : ""}`)),
      el("p", {}, agent.paused ? `Paused since ${instant(agent.paused.since)}: ${agent.paused.reason}. ` : "", el("a", {href: `#/queue/running?agent=${quoted(agent.id)}`}, many(open.processing, "turn")), " now, ", el("a", {href: `#/queue/waiting?agent=${quoted(agent.id)}`}, `${open.pending} waiting`), month ? `, ${money(today)} today, ${money(month)} this month` : ""), running.slice(0, 3).map((row) => el("p", {class: "works"}, "works on ", el("a", {href: `#/m/${quoted(row.id)}`}, row.text || row.id)))), el("div", {class: "acts"}, agent.paused?.until ? el("span", {class: "until"}, "in ", until(agent.paused.until)) : null, pause));
  return row;
}
async function approvals() {
  const [open, list] = await Promise.all([ask("/api/approvals?status=pending&limit=1000"), ask("/api/approvals?limit=100")]);
  const over = list.filter((one) => one.status !== "pending");
  return [top("Approvals", open.length ? `${many(open.length, "request waits", "requests wait")} for a yes or no.` : "No request waits."),
    el("section", {class: "panel", "aria-label": "Open"}, el("header", {}, el("h2", {}, "Open")), open.length ? longList(open, approvalRow) : el("p", {class: "none"}, "Nothing to decide.")),
    el("section", {class: "panel", "aria-label": "Decided"}, el("header", {}, el("h2", {}, "Decided")), over.length ? el("ul", {}, over.slice(0, 50).map(approvalRow)) : el("p", {class: "none"}, "Nothing yet."))];
}
function approvalRow(one) {
  const row = el("li", {class: "item asks", "data-key": one.approvalId}), isOpen = one.status === "pending";
  row.append(mark(isOpen ? "ask" : "done"), el("div", {}, el("h3", {}, one.title, el("span", {}, ` · ${one.kind.replaceAll("_", " ")} · since ${instant(one.createdAt)}${one.held ? ` · ${many(one.held, "message waits", "messages wait")}` : ""}`)), askedOf(one.payload), isOpen ? null : el("p", {}, `${one.choice === null ? one.status : one.options[one.choice] ?? one.status}${one.decidedBy ? `, by ${one.decidedBy}` : ""}`)),
    el("div", {class: "acts"}, isOpen ? [el("span", {class: "until"}, "ends in ", until(one.expiresAt)), one.options.map((label, choice) => button(label, `${label}: ${one.title}.`, [[`/api/approvals/${quoted(one.approvalId)}/decide`, "POST", {choice}]], row, `act${choice ? "" : " yes"}`))] : null));
  return row;
}
/** All that is asked for, each argument by its name: a value has a place of its own, so no text can pass for another argument. */
function askedOf({arguments: given, facts, covers, why, ...others}) {
  const list = (values) => el("dl", {class: "asked"}, Object.entries(values).map(([name, value]) => [el("dt", {}, name), el("dd", {class: "mono"}, typeof value === "string" ? value : JSON.stringify(value, null, 2))]));
  const kept = Object.entries(others).filter(([name]) => !OF_THE_ROW.includes(name));
  return [kept.length ? list(Object.fromEntries(kept)) : null, given ? list(given) : null, why ? el("p", {}, `It says why: ${why}`) : null,
    facts ? [el("p", {}, "As it is now:"), list(facts)] : null, covers ? [el("p", {}, "To allow it always covers, in this chat:"), list(covers)] : null];
}
const OF_THE_ROW = ["turn", "click", "used_at", "lost_at", "start", "is_global", "covers_chat"];   // for programs
const WHATS = {"": "All", dropped: "Dropped", held: "Held", ignored: "Ignored"};
async function dropped(_, query) {
  const names = new URLSearchParams(query), what = names.get("what") ?? "";
  const found = await ask(`/api/lists/unanswered?${new URLSearchParams({...Object.fromEntries(names), limit: "50"})}`), [rows, pill] = settled(found);
  const codes = [...new Set([names.get("code"), ...rows.filter((row) => row.what === "dropped").map((row) => row.code)].filter(Boolean))];
  return [top("Not answered", "What came in and got no answer, and why; never its text."),
    el("div", {class: "tabs"}, el("nav", {"aria-label": "What became of it", style: "display:contents"}, Object.entries(WHATS).map(([name, label]) => el("a", {href: `#/dropped${name ? `?what=${name}` : ""}`, "aria-current": name === what ? "page" : null}, label))),
      codes.length ? el("select", {"aria-label": "Only with this reason", onchange: (event) => { location.hash = `#/dropped${event.target.value ? `?what=dropped&code=${quoted(event.target.value)}` : ""}`; }}, el("option", {value: ""}, "every reason"), codes.map((one) => el("option", {value: one, selected: one === names.get("code")}, one.replaceAll("_", " ")))) : null),
    el("section", {class: "panel", "aria-label": WHATS[what] ?? "All"}, pill, rows.length ? el("ul", {class: "rows"}, rows.map(unansweredRow)) : el("p", {class: "none"}, "Everything that came in got its answer, or waits for it.")),
    found.length >= 50 ? el("a", {class: "more act", role: "button", href: `#/dropped?${new URLSearchParams({...Object.fromEntries(names), cursor: rows.at(-1).cursor})}`}, "Older ones") : null];
}
function unansweredRow(row) {
  const who = row.sender || row.senderId || "somebody", place = row.chatName && row.chatName !== who ? row.chatName : null;
  return el("li", {"data-key": row.id}, mark({dropped: "planned", held: "ask", ignored: "wait"}[row.what], row.what), time(row.at), el("div", {}, el("div", {}, row.what === "ignored" ? el("a", {href: `#/m/${quoted(row.id)}`}, who) : row.senderId ? el("a", {href: `#/p/${quoted(row.channel)}/${quoted(row.senderId)}`}, who) : who, el("span", {class: "who"}, ` · ${row.channel}`, place ? [" · ", row.chatId ? el("a", {href: `#/c/${row.chatId}`}, place) : place] : null, row.what === "dropped" ? ` · ${row.code.replaceAll("_", " ")}` : "")), el("div", {class: "reason"}, row.reason)),
    el("div", {class: "acts"}, row.until ? el("span", {class: "until"}, "ends in ", until(row.until)) : null, row.approval && !past ? el("a", {class: "act", href: "#/approvals"}, "Decide") : null));
}
const bytes = (count) => count < 1e6 ? `${(count / 1e3).toFixed(1)} kB` : count < 1e9 ? `${(count / 1e6).toFixed(1)} MB` : `${(count / 1e9).toFixed(2)} GB`;
async function replica() {
  const r = await ask("/api/replica");
  return [top("Replica", past ? "A copy of the past is in no replica." : r.ok ? "Every commit reaches it." : r.problems[0]),
    r.problems.length && !past ? el("ul", {class: "problem"}, r.problems.map((one) => el("li", {}, one))) : null,
    el("div", {class: "pair"}, el("section", {class: "panel", "aria-label": "Position"}, el("header", {}, el("h2", {}, "Position")), el("dl", {class: "facts"}, fact("behind", r.behindSeconds === null ? "not known" : `${r.behindSeconds.toFixed(2)} s`), fact("here", el("code", {}, r.position ?? "–")), fact("in the bucket", el("code", {}, r.replicatedPosition ?? "–")), fact("bucket", el("code", {}, r.url ?? "–")), fact("epoch", el("code", {}, r.epoch ?? "–")))),
    el("section", {class: "panel", "aria-label": "Proof"}, el("header", {}, el("h2", {}, "Last proven restore")), r.provenRestore ? el("dl", {class: "facts"}, fact("when", `${span(now() - r.provenRestore.at)} ago`), fact("position", el("code", {}, r.provenRestore.position)), fact("compared", `${r.provenRestore.tables} tables, ${r.provenRestore.rows.toLocaleString("en")} rows`), fact("took", span(r.provenRestore.totalMs))) : el("p", {}, "None yet. emulator verify makes one.")),
    r.storage ? el("section", {class: "panel", "aria-label": "Bucket"}, el("header", {}, el("h2", {}, "In the bucket")), el("dl", {class: "facts"}, fact("files", r.storage.files.toLocaleString("en")), fact("size", bytes(r.storage.bytes)), fact("older prefixes", r.storage.oldPrefixes))) : null)];
}
