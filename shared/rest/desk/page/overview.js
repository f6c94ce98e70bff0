// The first page: one sentence, four numbers, the books, what needs somebody, what mends itself.
async function overview() {
  const found = await ask("/api/overview");
  const [replica, budgets, status, alerts, routes] = await Promise.all(["replica", "budgets", "health", "alerts?limit=50", "alerts/routes"].map((path) => askSeldom(`/api/${path}`).catch(() => null)));
  count(found.numbers);
  document.title = `${found.sentence.replace(/\.$/, "")} · Postroom`;
  return [
    top(found.sentence, found.more),
    el("section", {class: "panel", "aria-label": "Numbers"}, numbers(found.numbers), booksOf(found.books)),
    el("div", {class: "two"},
      el("div", {},
        listOf("Needs you", "the button helps", found.needsYou, "Nothing needs you."),
        listOf("Recovers by itself", "nothing to do", found.mendsItself, "Nothing waits for time to pass."),
        alertsPanel(alerts, routes)),
      el("div", {}, past ? null : replicaPanel(replica), moneyPanel(budgets ?? []), past ? null : partsPanel(status))),
  ];
}
const top = (title, more) => el("div", {class: "top"}, el("h1", {}, title), more ? el("p", {}, more) : null);
function numbers(n) {
  const parts = [["act", n.paused], ["hatched", n.retrying], ["due", n.due], ["planned", n.planned]].filter(([, size]) => size);
  const says = [n.due && `${n.due.toLocaleString("en")} due`, n.paused && `${n.paused.toLocaleString("en")} of paused agents`, n.retrying && `${n.retrying} tried again`, n.planned && `${n.planned} planned`].filter(Boolean).join(" · ");
  const old = n.oldest === null ? "–" : span(now() - n.oldest);
  return el("dl", {class: "numbers"},
    el("div", {}, el("dt", {}, "Waiting"), el("dd", {}, n.waiting.toLocaleString("en")), el("dd", {style: "font: inherit"}, el("div", {class: "bar", "aria-hidden": "true"}, parts.map(([kind, size]) => el("i", {class: kind, style: `flex:${size}`}))), el("small", {}, says || "nothing waits"))),
    el("div", {}, el("dt", {}, "Running"), el("dd", {}, n.running.toLocaleString("en")), el("dd", {style: "font: inherit"}, el("small", {}, `${many(n.sending, "answer")} to send or fetch`))),
    el("div", {}, el("dt", {}, "Dead"), el("dd", {class: n.dead + n.deadAnswers ? "bad" : ""}, (n.dead + n.deadAnswers).toLocaleString("en")), el("dd", {style: "font: inherit"}, el("small", {}, `${many(n.dead, "message")}, ${many(n.deadAnswers, "answer")}`))),
    el("div", {}, el("dt", {}, "Oldest"), el("dd", {}, old), el("dd", {style: "font: inherit"}, el("small", {}, n.oldestAgent ? `for ${n.oldestAgent}, since ${instant(n.oldest)}` : "nothing waits"))));
}
function booksOf(b) {
  const part = (sign, size, what) => el("span", {}, `${sign} `, el("b", {class: "mono"}, size.toLocaleString("en")), ` ${what}`);
  const others = [["answered", b.answered], ["context", b.context], ["dead", b.dead], ["cancelled", b.cancelled], ["wait", b.waiting], ["run", b.running], ["dropped", b.dropped], ["deleted", b.deleted], ["missing", b.missing]].filter(([what, size]) => size || what === "answered");
  return el("div", {class: "books", "data-balance": b.balance ? "yes" : "no"},
    part(`Accepted since ${instant(b.since)}`, b.accepted, ""), others.map(([what, size], at) => part(at ? "+" : "=", size, what)),
    el("span", {class: "says"}, b.balance ? "✓ the books balance" : "the books don't balance"));
}
function listOf(title, says, items, none) {
  return el("section", {class: "panel", "aria-label": title}, el("header", {}, el("h2", {}, title), el("span", {}, says)),
    items.length ? el("ul", {}, items.map(itemOf)) : el("p", {class: "none"}, none));
}
function itemOf(item) {
  const row = el("li", {class: "item", "data-key": item.key});
  const title = item.link ? el("a", {href: item.link}, item.title) : item.title;
  row.append(mark(item.mark), el("div", {}, el("h3", {}, title, item.since ? el("span", {}, ` · since ${instant(item.since)}`) : null), item.why ? el("p", {}, item.why) : null),
    el("div", {class: "acts"}, item.until ? el("span", {class: "until"}, "in ", until(item.until)) : null, buttonsOf(item, row)));
  return row;
}
function replicaPanel(r) {
  if (!r || r.reportedAt === null && r.position === null) return el("section", {class: "panel", "aria-label": "Replica"}, el("header", {}, el("h2", {}, "Replica")), el("p", {}, "Nothing replicates this database."));
  return el("section", {class: "panel", "aria-label": "Replica"}, el("header", {}, el("h2", {}, "Replica"), el("a", {href: "#/replica"}, "more")),
    el("p", {class: "figure"}, r.behindSeconds === null ? "not known how far" : `${r.behindSeconds.toFixed(2)} s behind`),
    el("dl", {class: "facts"}, fact("position", el("code", {}, r.replicatedPosition ?? "–")), fact("last proven restore", r.provenRestore ? `${span(now() - r.provenRestore.at)} ago` : "never")));
}
function moneyPanel(budgets) {
  if (!budgets.length) return null;
  return el("section", {class: "panel", "aria-label": "Budgets"}, el("header", {}, el("h2", {}, "Budgets"), el("a", {href: "#/agents"}, "by agent")), budgets.map(meter));
}
function meter(b) {
  const whole = b.amount + b.extra, share = whole ? Math.min(1, b.spent / whole) : 1;
  const words = b.unit === "money" ? [money(b.spent), money(whole)] : [b.spent.toLocaleString("en"), `${whole.toLocaleString("en")} tokens`];
  return el("div", {class: `meter${share >= 1 ? " over" : share >= .8 ? " nearly" : ""}`}, el("span", {}, `${b.agent ?? "all agents"}, a ${b.period}`), el("i", {"aria-hidden": "true"}, el("b", {style: `width:${Math.round(share * 100)}%`})), el("span", {class: "mono"}, `${words[0]} of ${words[1]}`));
}
function partsPanel(health) {
  if (!health) return null;
  return el("section", {class: "panel", "aria-label": "Parts"}, el("header", {}, el("h2", {}, "Parts")), el("dl", {class: "facts"},
    fact("api", `up for ${span(health.uptime * 1000)}`),
    Object.entries(health.functions).map(([name, each]) => fact(name, each.running ? "runs" : el("b", {}, "does not run"))),
    fact("last sweep", health.lastSweep ? `${span(now() - health.lastSweep)} ago` : "–")));
}
const fact = (name, value) => [el("dt", {}, name), el("dd", {}, value)];
