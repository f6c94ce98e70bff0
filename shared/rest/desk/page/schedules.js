// The schedules: a calendar of what was due and what became of it, the same in words by day, and each with its buttons.
const WEEK = 7 * 86400000, NOON = 43200000;
const RUN_MARKS = {ran: "done", late: "late", failed: "dead", cancelled: "planned", skipped: "planned", missed: "unknown", running: "run", waits: "wait", planned: "planned"};
const LEGEND = [["ran", "ran on time"], ["late", "ran late"], ["failed", "failed"], ["missed", "missed"], ["skipped", "skipped: another run stood for it, or no model was asked"], ["waits", "due, waits"], ["planned", "planned"]];

async function schedules([since]) {
  const [list, calendar] = await Promise.all([ask("/api/schedules"), ask(`/api/calendar${since ? `?since=${quoted(since)}` : ""}`)]);
  const sorted = [...list].sort((a, b) => a.nextAt - b.nextAt), texts = new Map(list.map((one) => [one.id, one.message.slice(0, 60)]));
  for (const one of [...list, ...calendar.series]) if (one.label === one.id && texts.get(one.id)) one.label = texts.get(one.id);   // one without a label has its id there
  return [
    top("Schedules", summary(calendar)),
    calendar.series.length ? [weekOf(calendar), wordsOf(calendar)] : [weekLinks(calendar), el("section", {class: "panel", "aria-label": "Calendar"}, el("p", {class: "none"}, "Nothing was due in these days, and nothing is planned."))],
    el("section", {class: "panel", "aria-label": "All schedules"}, el("header", {}, el("h2", {}, "All schedules"), el("span", {}, "soonest first")), sorted.length ? longList(sorted, scheduleRow) : el("p", {class: "none"}, "Nothing is planned. emulator schedules add plans something.")),
  ];
}
function summary(calendar) {
  const all = calendar.series.flatMap((one) => one.days), sum = (name) => all.reduce((total, day) => total + day[name], 0);
  const waits = all.flatMap((day) => day.runs).filter((run) => run.state === "waits").length;
  const planned = sum("planned"), ran = sum("total") - planned - sum("missed") - sum("failed") - sum("late") - waits;
  const parts = [[ran, "ran"], [sum("late"), "late"], [sum("failed"), "failed"], [sum("missed"), "without a run"], [waits, waits === 1 ? "waits" : "wait"]].filter(([count]) => count).map(([count, what]) => `${count.toLocaleString("en")} ${what}`);
  return `${parts.length ? `Due in these days: ${parts.join(", ")}.` : "Nothing was due in these days."} Times are those of ${calendar.timezone}.`;
}
const inZone = (ms, zone, options) => new Date(ms).toLocaleString("en-GB", {timeZone: zone, ...options});
const clockIn = (ms, zone) => inZone(ms, zone, {hour: "2-digit", minute: "2-digit"});
const dayIn = (ms, zone) => inZone(ms, zone, {weekday: "short", day: "numeric", month: "short"});
const isNow = (calendar, at) => calendar.days[at] <= calendar.at && calendar.at < calendar.days[at + 1];
function weekLinks(calendar) {
  const first = calendar.days[0] + NOON;
  return el("div", {class: "tabs week"}, el("a", {href: `#/schedules/${first - WEEK}`}, "‹ Earlier"), el("a", {href: "#/schedules", "aria-current": isNow(calendar, calendar.days.length - 3) ? "page" : null}, "Now"), el("a", {href: `#/schedules/${first + WEEK}`}, "Later ›"), el("span", {}, `${dayIn(calendar.days[0], calendar.timezone)} to ${dayIn(calendar.days.at(-1) - 1, calendar.timezone)}`));
}
function weekOf(calendar) {
  const number = calendar.days.length - 1;
  return [
    weekLinks(calendar),
    el("section", {class: "panel calendar", "aria-label": "Calendar", tabindex: "0"}, el("table", {},
      el("caption", {class: "hidden"}, "Each schedule by day"),
      el("thead", {}, el("tr", {}, el("td", {}), Array.from({length: number}, (_, at) => el("th", {scope: "col", class: isNow(calendar, at) ? "today" : null}, dayIn(calendar.days[at], calendar.timezone), isNow(calendar, at) ? el("small", {}, " today") : null)))),
      el("tbody", {}, calendar.series.map((one) => el("tr", {}, el("th", {scope: "row"}, el("b", {}, one.label), el("small", {}, [one.agentId || null, one.cron || null].filter(Boolean).join(" · "))), one.days.map((day, at) => el("td", {class: isNow(calendar, at) ? "today" : null}, cellOf(day, calendar.timezone)))))))),
    el("ul", {class: "legend", "aria-hidden": "true"}, LEGEND.map(([state, says]) => el("li", {}, mark(RUN_MARKS[state]), says))),
    calendar.others ? el("p", {class: "note"}, `${many(calendar.others, "more series has", "more series have")} runs in these days.`) : null,
    calendar.completeSince > calendar.days[0] ? el("p", {class: "note"}, `Very many runs: only those since ${dayIn(calendar.completeSince, calendar.timezone)} ${clockIn(calendar.completeSince, calendar.timezone)} are shown.`) : null,
  ];
}
/** On a busy day only what is not as planned has a place of its own, at most *most*; the others are a number. */
function partsOf(day, most) {
  const isBusy = day.total > day.runs.length || day.runs.length > 6;
  const shown = isBusy ? day.runs.filter((run) => !["ran", "planned"].includes(run.state)).slice(0, most) : day.runs;
  const rest = isBusy ? day.total - shown.reduce((sum, run) => sum + run.count, 0) : 0, planned = isBusy ? day.planned : 0;
  const late = Math.max(0, Math.min(rest, day.late) - shown.filter((run) => run.state === "late").length);
  const ran = Math.max(0, rest - planned);
  return {shown, others: [ran ? ["done", `${ran.toLocaleString("en")} ${shown.length ? "more" : "ran"}${late && isBusy ? `, ${late} late` : ""}`] : null, planned ? ["planned", `${planned}${day.hasMore ? "+" : ""} planned`] : null].filter(Boolean)};
}
function cellOf(day, zone) {
  const {shown, others} = partsOf(day, 3);
  return [shown.map((run) => chip(run, zone)), others.map(([kind, says]) => el("span", {class: `run ${kind}`}, mark(kind), says))];
}
function chip(run, zone) {
  const late = run.startedAt && run.startedAt - run.dueAt >= 60000 ? ` +${span(run.startedAt - run.dueAt).split(" ").slice(0, 2).join(" ")}` : "";
  const says = `${clockIn(run.dueAt, zone)}${late}${run.count > 1 ? ` ×${run.count}` : ""}`;
  const inside = [mark(RUN_MARKS[run.state]), says, run.state === "ran" || run.state === "planned" || late ? null : el("small", {}, ` ${run.state}`)];
  return run.messageId && run.state !== "planned" ? el("a", {class: `run ${run.state}`, href: `#/m/${quoted(run.messageId)}`, title: run.words}, inside) : el("span", {class: `run ${run.state}`, title: run.words}, inside);
}
/** Each run in words, today first; on a phone this is the calendar. */
function wordsOf(calendar) {
  const days = Array.from({length: calendar.days.length - 1}, (_, at) => ({at, rows: calendar.series.flatMap((one) => {
    const {shown, others} = partsOf(one.days[at], 12);
    return [...shown.map((run) => ({...run, label: one.label})), ...others.map(([kind, words]) => ({state: kind === "done" ? "ran" : "planned", words, dueAt: null, label: one.label}))];
  })}));
  const past = days.filter((one) => calendar.days[one.at] <= calendar.at).reverse(), next = days.filter((one) => calendar.days[one.at] > calendar.at);
  const section = (one, isPast) => one.rows.length ? el("section", {class: `panel${isPast ? "" : " only-phone"}`, "aria-label": dayIn(calendar.days[one.at], calendar.timezone)},
    el("header", {}, el("h2", {}, isNow(calendar, one.at) ? "Today" : dayIn(calendar.days[one.at], calendar.timezone))),
    longList(one.rows.sort((a, b) => (a.dueAt === null) - (b.dueAt === null) || (isPast ? b.dueAt - a.dueAt : a.dueAt - b.dueAt)), (run) => runRow(run, calendar.timezone), "rows runs")) : null;
  return [past.map((one) => section(one, true)), next.map((one) => section(one, false))];
}
function runRow(run, zone) {
  const title = run.messageId && run.state !== "planned" ? el("a", {href: `#/m/${quoted(run.messageId)}`}, run.label) : run.label;
  return el("li", {}, mark(RUN_MARKS[run.state], run.state), run.dueAt === null ? el("span") : el("time", {class: "mono", datetime: new Date(run.dueAt).toISOString()}, clockIn(run.dueAt, zone)), el("div", {}, el("span", {class: "label"}, title), " ", el("span", {class: "reason"}, run.words)));
}
function scheduleRow(one) {
  const row = el("li", {class: "item", "data-key": one.id});
  const change = (label, enabled) => button(label, `${label} ${one.label || one.id}.`, [[`/api/schedules/${quoted(one.id)}`, "PUT", {enabled}]], row);
  row.append(mark(one.enabled ? "planned" : "paused"), el("div", {}, el("h3", {}, one.label || one.message.slice(0, 80), el("span", {}, ` · ${one.agentId || "Postroom"} · ${one.cron || "once"} · ${one.timezone}`)), el("p", {}, one.message.startsWith(one.label) ? one.id : one.message, one.state === "planned" ? "" : ` ${one.reason}`, one.chatId ? [" ", el("a", {href: `#/c/${one.chatId}`}, "its chat")] : null)),
    el("div", {class: "acts"}, one.enabled ? el("span", {class: "until"}, instant(one.nextAt), one.nextAt > now() ? [", in ", until(one.nextAt)] : ", due") : "paused", change(one.enabled ? "Pause" : "Resume", !one.enabled)));
  return row;
}
