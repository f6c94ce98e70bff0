"""The sections of the page: each has its plots and the tables behind them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from spark_jobs.report.charts import Chart, Values, lines, stacked
from spark_jobs.report.facts import Facts, Row, by, grouped, total
from spark_jobs.report.graph import Graph, graph
from spark_jobs.report.judgement.turns import open_at_end
from spark_jobs.report.tables import Table, table
from spark_jobs.report.words import day, dollars, listed, name, number, plural

MOST_DAYS = 30
FEWEST_DAYS = 7
MOST_PANELS = 8
_COLOURS = {"not delivered": 6, "missed": 6, "tried again": 1, "doubled": 1, "unknown outcome": 5}


@dataclass(frozen=True, slots=True)
class Figure:
    """One plot with its title."""

    title: str
    plot: Chart | Graph

    @property
    def is_graph(self) -> bool:
        return isinstance(self.plot, Graph)


@dataclass(frozen=True, slots=True)
class Section:
    """One question about the postroom.

    Args:
        says: its answer in a sentence or two.
        empty: why there is no plot.
        note: how to read it.
    """

    id: str
    title: str
    says: str = ""
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    empty: str = ""
    note: str = ""


def sections(facts: Facts) -> tuple[Section, ...]:
    """All sections, in their order."""
    days = days_shown(facts)
    return tuple(make(facts, days) for make in _SECTIONS)


def days_shown(facts: Facts) -> list[date]:
    """The days of the plots: those that there are, at least a week and at most a month."""
    first = facts.first_day() or facts.today
    count = min(MOST_DAYS, max(FEWEST_DAYS, (facts.today - first).days + 1))
    return [facts.today - timedelta(days=back) for back in range(count - 1, -1, -1)]


def _volume(facts: Facts, days: Sequence[date]) -> Section:
    rows = _within(facts, "message_volume", days)
    if not rows:
        return _nothing(facts, "volume", "Messages", "message_volume", "No message has come.")
    received = by(rows, "day", "received")
    busiest, most = next(iter(received.items()))
    says = (
        f"{plural(total(rows, 'received'), 'message')} came in {_period(days)}, the most on {day(busiest)} "
        f"({number(most)}), through {_most(rows, 'channel', 'received')}."
    )
    plot = stacked(days, _values(rows, "channel", "received"), number, f"Messages by day and channel. {says}")
    columns = {"day": "Day", "channel": "Channel", "received": "Received", "completed": "Completed", "dead": "Dead"}
    note = "Agents write to each other on “internal” and “chatroom”; “schedule” and “heartbeat” are runs of schedules."
    return Section(
        "volume", "Messages", says, (Figure("By day and channel", plot),), (table(rows, columns, 2),), note=note
    )


def _times(facts: Facts, days: Sequence[date]) -> Section:
    rows = _within(facts, "turn_times_of_days", days)
    if not rows:
        return _nothing(facts, "times", "Waiting and working", "turn_times_of_days", "No turn has begun.")
    agents = list(by(rows, "agent", "turns"))[:MOST_PANELS]
    figures = [figure for agent in agents for figure in _panels(agent, rows, days)]
    left_out = len({row["agent"] for row in rows}) - len(agents)
    says = "How long a message waits for its turn, and how long the turn takes, for the agents with the most turns."
    columns = {"day": "Day", "agent": "Agent", "waited": "Messages"}
    columns |= {f"wait_p{p}_ms": f"Wait, p{p}" for p in (50, 95, 99)}
    columns |= {"turns": "Turns"} | {f"turn_p{p}_ms": f"Turn, p{p}" for p in (50, 95, 99)}
    note = "p50: half took longer; p95: one in twenty; p99: one in a hundred. The scale is logarithmic."
    if left_out:
        note += f" {plural(left_out, 'more agent')} only in the table."
    return Section("times", "Waiting and working", says, tuple(figures), (table(rows, columns, 2),), note=note)


def _panels(agent: str, rows: Sequence[Row], days: Sequence[date]) -> Iterator[Figure]:
    mine = [row for row in rows if row["agent"] == agent]
    for title, column in (("waiting for", "wait"), ("turns of", "turn")):
        values = {f"p{p}": _times_of(mine, f"{column}_p{p}_ms") for p in (50, 95, 99)}
        if any(values.values()):
            heading = f"{title.capitalize()} {name(agent)}"
            yield Figure(heading, lines(days, values, f"{heading}: percentiles by day; the table has the numbers."))


def _backlog(facts: Facts, days: Sequence[date]) -> Section:
    if not facts.all("backlog"):
        return _nothing(facts, "backlog", "Backlog", "backlog", "Nothing has waited.")
    known = [each for each in days if each >= (facts.first_day() or facts.today)]
    counts = {each: open_at_end(facts, each) for each in known}
    now = counts[facts.today]
    says = f"{plural(now, 'message')} {'is' if now == 1 else 'are'} open now: waiting for a turn, or in one."
    plot = stacked(days, {"open": counts}, number, f"Open messages at the end of each day. {says}")
    rows: list[Row] = [{"day": each, "open": count} for each, count in counts.items()]
    shown = table(rows, {"day": "Day", "open": "Open at its end"}, 1)
    note = "Messages planned for later and paused ones are not counted."
    return Section("backlog", "Backlog", says, (Figure("Open at the end of each day", plot),), (shown,), note=note)


def _failures(facts: Facts, days: Sequence[date]) -> Section:
    rows = _within(facts, "failures", days)
    failed = [row for row in rows if row["failed_attempts"] or row["dead"] or row["failure"] != "none"]
    if not failed:
        return _nothing(facts, "failures", "Failures", "failures", f"No attempt has failed in {_period(days)}.")
    attempts, dead = total(failed, "failed_attempts"), total(failed, "dead")
    says = f"{plural(attempts, 'attempt')} failed in {_period(days)}; {plural(dead, 'message')} died of it."
    causes = _values(failed, "failure", "failed_attempts")
    plot = stacked(days, causes, number, f"Failed attempts by cause. {says}")
    figures = [Figure("Failed attempts, by cause", plot)]
    if dead:
        values = {cause: _counts([row for row in failed if row["failure"] == cause], "dead") for cause in causes}
        figures.append(
            Figure("Dead messages, by cause", stacked(days, values, number, f"Dead messages by cause. {says}"))
        )
    columns = {"day": "Day", "agent": "Agent", "failure": "Cause", "messages": "Messages"}
    columns |= {"failed_attempts": "Failed attempts", "dead": "Dead"}
    note = "By the day on which the message came. “unknown”: an attempt whose cause an earlier release did not keep."
    return Section("failures", "Failures", says, tuple(figures), (table(failed, columns, 3),), note=note)


def _deliveries(facts: Facts, days: Sequence[date]) -> Section:
    rows = _within(facts, "deliveries", days)
    if not rows:
        return _nothing(facts, "deliveries", "Delivery", "deliveries", "No answer has been delivered.")
    says = (
        f"{plural(total(rows, 'delivered'), 'answer')} delivered in {_period(days)}, "
        f"through {_most(rows, 'channel', 'delivered')}; {number(total(rows, 'dead'))} not delivered, "
        f"{plural(total(rows, 'retries'), 'retry', 'retries')}, "
        f"{plural(total(rows, 'unknown_outcomes'), 'unknown outcome')}."
    )
    bad = {"not delivered": "dead", "tried again": "retries", "unknown outcome": "unknown_outcomes"}
    figures = [Figure("Delivered", stacked(days, _values(rows, "channel", "delivered"), number, f"Delivered. {says}"))]
    if any(total(rows, column) for column in bad.values()):
        values = {label: _counts(rows, column) for label, column in bad.items()}
        figures.append(Figure("What failed", stacked(days, values, number, f"What failed. {says}", _COLOURS)))
    for channel in list(by(rows, "channel", "delivered"))[:MOST_PANELS]:
        mine = [row for row in rows if row["channel"] == channel]
        times = {f"p{p}": _times_of(mine, f"delivery_p{p}_ms") for p in (50, 95, 99)}
        if any(times.values()):
            heading = f"Time to deliver on {name(channel)}"
            plot = lines(days, times, f"{heading}: percentiles by day; the table has the numbers.")
            figures.append(Figure(heading, plot))
    columns = {"day": "Day", "channel": "Channel", "delivered": "Delivered", "dead": "Not delivered"}
    columns |= {"retries": "Retries", "unknown_outcomes": "Unknown"}
    columns |= {f"delivery_p{p}_ms": f"p{p}" for p in (50, 95, 99)}
    return Section("deliveries", "Delivery", says, tuple(figures), (table(rows, columns, 2),))


def _schedules(facts: Facts, days: Sequence[date]) -> Section:
    rows = _within(facts, "schedules", days)
    if not rows:
        return _nothing(facts, "schedules", "Schedules", "schedules", "No schedule has run.")
    says = (
        f"{plural(total(rows, 'runs'), 'run')} of {plural(len({row['series_id'] for row in rows}), 'schedule')} in "
        f"{_period(days)}; {number(total(rows, 'missed'))} missed, {number(total(rows, 'doubled'))} doubled."
    )
    values = {
        "begun": {each: runs - _counts(rows, "doubled").get(each, 0) for each, runs in _counts(rows, "runs").items()},
        "doubled": _counts(rows, "doubled"),
        "missed": _counts(rows, "missed"),
    }
    late = {"latest run": {each: max(late) for each, late in _late(rows) if late}}
    figures = [Figure("Runs", stacked(days, values, number, f"Runs of schedules. {says}", _COLOURS))]
    if late["latest run"]:
        figures.append(Figure("How late the latest run began", lines(days, late, "The longest delay of a run by day.")))
    columns = {"day": "Day", "series_id": "Schedule", "runs": "Runs", "missed": "Missed", "doubled": "Doubled"}
    columns |= {"late_p50_ms": "Late, p50", "late_max_ms": "Late, at most"}
    return Section("schedules", "Schedules", says, tuple(figures), (table(rows, columns, 2),))


def _people(facts: Facts, days: Sequence[date]) -> Section:
    rows = _within(facts, "people", days)
    if not rows:
        return _nothing(facts, "people", "People", "people", "Nobody has written.")
    active, returning = _counts(rows, "active"), _counts(rows, "returning")
    latest = max(active)
    says = (
        f"{plural(active[latest], 'person', 'people')} wrote on {day(latest)}; "
        f"{number(returning[latest])} of them had written in the 30 days before."
    )
    values = {"had written before": returning, "new": {each: count - returning[each] for each, count in active.items()}}
    plot = stacked(days, values, number, f"People by day. {says}")
    columns = {"day": "Day", "channel": "Channel", "active": "People", "returning": "Had written before"}
    columns |= {"sessions": "Sessions", "messages": "Messages"}
    note = "Somebody who writes on two channels counts on each."
    return Section("people", "People", says, (Figure("By day", plot),), (table(rows, columns, 2),), note=note)


def _agents(facts: Facts, days: Sequence[date]) -> Section:
    rows = _within(facts, "agent_pairs", days)
    if not rows:
        return _nothing(facts, "agents", "Agents among themselves", "agent_pairs", "No agent has written to another.")
    pairs = by(rows, lambda row: (row["from_agent"], row["agent"]), "messages")
    says = (
        f"{plural(total(rows, 'messages'), 'message')} between agents in {_period(days)}; "
        f"{plural(total(rows, 'back_and_forth'), 'conversation')} went back and forth, "
        "counted once in each direction and day."
    )
    drawn = graph(pairs)
    left_out = f" {plural(drawn.left_out, 'more way')} only in the table." if drawn.left_out else ""
    columns = {"day": "Day", "from_agent": "From", "agent": "To", "messages": "Messages"}
    columns |= {"conversations": "Conversations", "back_and_forth": "Back and forth", "longest": "Longest"}
    note = f"The thicker an arrow, the more messages.{left_out}"
    figures = (Figure("Who writes to whom", drawn),)
    return Section("agents", "Agents among themselves", says, figures, (table(rows, columns, 3),), note=note)


def _costs(facts: Facts, days: Sequence[date]) -> Section:
    rows = [{**row, "cost_dollars": row["cost_micro_dollars"]} for row in _within(facts, "costs", days)]
    if not rows:
        return _nothing(facts, "costs", "Costs", "costs", "No model was used through the gateway.")
    says = (
        f"{dollars(total(rows, 'cost_dollars'))} in {_period(days)} for {plural(total(rows, 'turns'), 'turn')}; "
        f"{plural(total(rows, 'turns_without_price'), 'turn')} without a known price."
    )
    figures = [
        Figure(title, stacked(days, _values(rows, key, "cost_dollars"), _money, f"{title}. {says}"))
        for title, key in (("By agent", "agent"), ("By model", "model"))
        if total(rows, "cost_dollars")
    ]
    columns = {"day": "Day", "agent": "Agent", "model": "Model", "paid_by": "Paid by", "turns": "Turns"}
    columns |= {"input": "Tokens in", "output": "Tokens out", "cost_dollars": "Cost", "turns_without_price": "No price"}
    return Section("costs", "Costs", says, tuple(figures), (table(rows, columns, 4),))


_SECTIONS: tuple[Callable[[Facts, Sequence[date]], Section], ...] = (
    _volume,
    _times,
    _backlog,
    _failures,
    _deliveries,
    _schedules,
    _people,
    _agents,
    _costs,
)


def _nothing(facts: Facts, id_: str, title: str, job: str, empty: str) -> Section:
    lacks = facts.absent.get(job)
    return Section(id_, title, empty=f"This mart has no {name(lacks, 80)}." if lacks else empty)


def _within(facts: Facts, job: str, days: Sequence[date]) -> list[Row]:
    return [row for row in facts.all(job) if days[0] <= row["day"] <= days[-1]]


def _values(rows: Sequence[Row], key: str, column: str) -> Values:
    """The sums of *column* by day for each value of *key*, the largest series first."""
    groups = dict(grouped(rows, key))
    return {label: _counts(groups[label], column) for label in by(rows, key, column)}


def _counts(rows: Sequence[Row], column: str) -> dict[date, int]:
    return by(rows, "day", column)


def _times_of(rows: Sequence[Row], column: str) -> dict[date, float]:
    return {row["day"]: row[column] for row in rows if row[column] is not None}


def _late(rows: Sequence[Row]) -> Iterator[tuple[date, list[int]]]:
    for each, group in grouped(rows, "day"):
        yield each, [row["late_max_ms"] for row in group if row["late_max_ms"] is not None]


def _most(rows: Sequence[Row], key: str, column: str) -> str:
    """The three largest values of *key*, with their numbers."""
    sums = by(rows, key, column)
    told = [f"{name(label)} ({number(count)})" for label, count in list(sums.items())[:3]]
    return listed([*told, "others"] if len(sums) > 3 else told)


def _period(days: Sequence[date]) -> str:
    return f"the {len(days)} days to {day(days[-1])}"


def _money(micro: float) -> str:
    return dollars(round(micro))
