"""The metrics, made from the facts that were read. Pure.

Names follow OpenMetrics: a unit at the end, ``_total`` behind a counter. The first ``LARGEST`` agents, and as many
channels, have series of their own; all others share the series ``(other)``. No id has parentheses.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import add
from typing import NamedTuple

from shared.db.views.monitoring.depths import Depth
from shared.db.views.monitoring.event_totals import EventTotal
from shared.db.views.spending import BudgetView
from shared.rest.metrics.exposition import Family, Labels

LARGEST = 50
_OTHER, _NONE, _ALL = "(other)", "(none)", "(all)"

_MESSAGE_STATES = ("due", "planned", "paused", "retrying", "running", "dead")
_RESPONSE_STATES = ("due", "planned", "retrying", "sending", "to_fetch", "dead")

# The event, the metric, and what it counts.
_OF_AGENTS = (
    ("chain_step_start", "turns_begun", "Turns of agents that began, each attempt of its own."),
    ("chain_step_done", "turns_completed", "Turns of agents that succeeded."),
    ("message_retry", "message_retries", "Messages whose attempt failed and is made again."),
    ("message_dead", "messages_dead", "Messages that were given up."),
    ("message_cancelled", "messages_cancelled", "Messages that were cancelled."),
)
_OF_CHANNELS = (
    ("response_acked", "responses_sent", "Responses that were delivered, or fetched by a client."),
    ("response_retry", "response_retries", "Sends of responses that failed and are made again."),
    ("response_dead", "responses_dead", "Responses that were given up."),
    (
        "response_outcome_unknown",
        "responses_outcome_unknown",
        "Sends of which nobody knows whether they arrived.",
    ),
)


class Places(NamedTuple):
    """The disk below the database, and its files, in bytes."""

    free: int
    used: int
    database: int
    wal: int


class ReplicaFacts(NamedTuple):
    """What is known about the replica. *lag_s*: the age of the oldest commit that is not in it; None: not known.

    *answers*: Litestream does; None: this system has none. *proven_at*: the last proven restore, in ms UTC.
    """

    answers: bool | None
    lag_s: float | None
    proven_at: int | None


class MetricFacts(NamedTuple):
    """Everything that was read for one answer. *channels*: those that are served; *deaf*, *paused*, *out*: of them."""

    now_ms: int
    agents: Sequence[str]
    paused_agents: set[str]
    channels: Sequence[str]
    deaf: set[str]
    paused: set[str]
    out: set[str]
    messages: Sequence[Depth]
    responses: Sequence[Depth]
    tasks: dict[str, int]
    approvals: int
    accepted: int
    totals: Sequence[EventTotal]
    budgets: Sequence[BudgetView]
    running: dict[str, bool]
    last_sweep: int | None
    places: Places
    replica: ReplicaFacts


class _Named:
    """The label that names an agent or a channel, with a limited number of values."""

    def __init__(self, label: str, names: Iterable[str]) -> None:
        self._label = label
        self._own = set([*dict.fromkeys(name for name in names if name)][:LARGEST])

    def samples(
        self, values: Iterable[tuple[str, Labels, float]], join: Callable[[float, float], float] = add
    ) -> list[tuple[Labels, float]]:
        """One sample for each name with its other labels; *join* combines values that share a series."""
        found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        for name, more, value in values:
            shown = name if name in self._own or name == _ALL else _OTHER if name else _NONE
            key = (shown, tuple(more.items()))
            found[key] = join(found[key], value) if key in found else value
        return [({self._label: shown, **dict(more)}, value) for (shown, more), value in found.items()]


def families(facts: MetricFacts) -> list[Family]:
    """All metrics, in the order in which they are printed."""
    of_agents, of_channels = _Named("agent", _agents(facts)), _Named("channel", _channels(facts))
    return [
        *_depths(facts, of_agents, of_channels),
        _counter("messages_accepted_total", "Messages that were stored, from people, agents and schedules.", facts),
        *_counters(facts, of_agents, of_channels),
        *_health(facts, of_agents, of_channels),
        *_budgets(facts, of_agents),
        *_system(facts),
    ]


def _agents(facts: MetricFacts) -> Iterable[str]:
    """In the order of their creation, so that no agent moves from one series to another."""
    yield from (each.name for each in facts.totals if not _is_of_channel(each.type))
    yield from facts.agents
    yield from (each.name for each in facts.messages)


def _channels(facts: MetricFacts) -> Iterable[str]:
    yield from facts.channels  # few, while a caller of the API may name any channel
    yield from (each.name for each in facts.totals if _is_of_channel(each.type))
    yield from (each.name for each in facts.responses)


def _is_of_channel(type_: str) -> bool:
    return type_.startswith(("response_", "channel_"))


def _gauge(name: str, help_: str, samples: Sequence[tuple[Labels, float]]) -> Family:
    return Family(f"postroom_{name}", "gauge", help_, samples)


def _counter(name: str, help_: str, facts: MetricFacts) -> Family:
    return Family(f"postroom_{name}", "counter", help_, [({}, facts.accepted)])


def _depths(facts: MetricFacts, of_agents: _Named, of_channels: _Named) -> Iterable[Family]:
    for name, found, named, all_, states in (
        ("message", facts.messages, of_agents, facts.agents, _MESSAGE_STATES),
        ("response", facts.responses, of_channels, facts.channels, _RESPONSE_STATES),
    ):
        none: list[tuple[str, Labels, float]] = [(each, {"state": state}, 0) for each in all_ for state in states]
        numbers = [(each.name, {"state": each.state}, each.number) for each in found]
        yield _gauge(f"{name}s", f"How many {name}s are in this state.", named.samples([*none, *numbers]))
        ages = [
            (each.name, {"state": each.state}, max(0, facts.now_ms - each.oldest_ms) / 1000)
            for each in found
            if each.oldest_ms is not None
        ]
        help_ = f"How long the oldest {name} in this state waits or, if it runs, how long its turn does."
        yield _gauge(f"{name}_oldest_age_seconds", help_, named.samples(ages, max))
    tasks: list[tuple[Labels, float]] = [({"state": state}, number) for state, number in facts.tasks.items()]
    yield _gauge("tasks", "Messages of schedules, and those for a later instant, in this state.", tasks)
    yield _gauge("approvals_pending", "Requests that wait for a yes or no.", [({}, facts.approvals)])


def _counters(facts: MetricFacts, of_agents: _Named, of_channels: _Named) -> Iterable[Family]:
    for table, named, all_ in ((_OF_AGENTS, of_agents, facts.agents), (_OF_CHANNELS, of_channels, facts.channels)):
        for type_, name, help_ in table:
            found: list[tuple[str, Labels, float]] = [(each, {}, 0) for each in all_]
            found += [(each.name, {}, each.number) for each in facts.totals if each.type == type_]
            yield Family(f"postroom_{name}_total", "counter", help_, named.samples(found))
    types: dict[str, float] = {}
    for each in facts.totals:
        types[each.type] = types.get(each.type, 0) + each.number
    every: list[tuple[Labels, float]] = [({"type": type_}, number) for type_, number in types.items()]
    yield Family("postroom_events_total", "counter", "Events of each type.", every)


def _health(facts: MetricFacts, of_agents: _Named, of_channels: _Named) -> Iterable[Family]:
    for name, help_, named, all_, those in (
        ("agent_paused", "1 where the agent is paused.", of_agents, facts.agents, facts.paused_agents),
        ("channel_deaf", "1 where the platform sends us no events.", of_channels, facts.channels, facts.deaf),
        ("channel_paused", "1 where the platform refuses our token.", of_channels, facts.channels, facts.paused),
        ("channel_outage", "1 where the platform can't be reached.", of_channels, facts.channels, facts.out),
    ):
        yield _gauge(name, help_, named.samples([(each, {}, int(each in those)) for each in all_]))
    running: list[tuple[Labels, float]] = [({"function": name}, int(is_up)) for name, is_up in facts.running.items()]
    yield _gauge("function_up", "1 where the function's process listens.", running)
    if facts.last_sweep is not None:
        yield _gauge("last_sweep_timestamp_seconds", "When sweep ran last.", [({}, facts.last_sweep / 1000)])


def _budgets(facts: MetricFacts, of_agents: _Named) -> Iterable[Family]:
    for unit, suffix, scale in (("money", "dollars", 1e6), ("tokens", "tokens", 1)):
        those = [each for each in facts.budgets if each["unit"] == unit]
        for name, help_, used in (
            ("limit", "What may be spent in the present day or month.", 0),
            ("left", "What is left of it; below 0 where more was spent.", 1),
        ):
            values = [
                (
                    each["agent"] or _ALL,
                    {"period": each["period"]},
                    (each["amount"] + each["extra"] - used * each["spent"]) / scale,
                )
                for each in those
            ]
            yield _gauge(f"budget_{name}_{suffix}", help_, of_agents.samples(values))


def _system(facts: MetricFacts) -> Iterable[Family]:
    places, replica = facts.places, facts.replica
    for name, help_, value in (
        ("disk_free_bytes", "Free on the disk of the database.", places.free),
        ("disk_used_bytes", "Used on the disk of the database.", places.used),
        ("database_size_bytes", "Size of the database without its log.", places.database),
        ("wal_size_bytes", "Size of the database's write-ahead log.", places.wal),
        ("replica_up", "1 where Litestream answers.", None if replica.answers is None else int(replica.answers)),
        (
            "replica_lag_seconds",
            "How long the oldest commit waits that is not in the replica; absent where that is not known.",
            replica.lag_s,
        ),
        (
            "replica_proven_restore_timestamp_seconds",
            "When a restore was last compared with the database and found good.",
            None if replica.proven_at is None else replica.proven_at / 1000,
        ),
    ):
        yield _gauge(name, help_, [] if value is None else [({}, value)])
