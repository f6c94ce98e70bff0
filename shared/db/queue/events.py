"""Events: every change of state, append-only; server-sent events, histories and Spark's streams read them."""

import json
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import apsw
import msgspec
from typing_extensions import TypedDict

from shared.core import content
from shared.db.engine.connection import insert_into, rows, scalar

_PRUNE = """
    DELETE FROM events
     WHERE id IN (SELECT id
                    FROM (SELECT id, created_at
                            FROM events
                           WHERE id < (SELECT max(id) FROM events)
                             AND id <= (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'events_counted')
                           ORDER BY id
                           LIMIT :limit)
                   WHERE created_at < :cutoff)
"""


_RoomAuthor = TypedDict("_RoomAuthor", {"from": str}, total=False)  # a keyword of Python can't be a class's field


class EventData(_RoomAuthor, total=False):
    """``events.data``, as JSON: facts, never a person's text and no secrets. Each type of event has some of the keys.

    Rows from any earlier release hold the same keys, so a key is never renamed and never gets another meaning.

    Attributes:
        running: a turn had the message, and was stopped: ``message_cancelled``.
        reason: why: ``*_retry``, ``*_dead``, ``*_released``, ``*_cancelled``, ``series_ended``,
            ``channel_paused``, ``chain_ended``, ``agent_paused``.
        failure: the code of the failed attempt, as the row keeps it: ``*_retry``, ``*_dead``. Older rows lack it.
        retry_count: failed attempts so far, without those that cost none: ``*_retry``, ``*_dead``.
        process_after: when the next attempt may begin, in ms UTC: ``message_retry``.
        deliver_after: the same of a response: ``response_retry``, and ``response_ready`` of a planned one.
        part: the part of the response that may have been sent, from 0 on: ``response_outcome_unknown``.
        into: the first message of the turn that was told it: ``message_steered``.
        batch: the ids of the turn's messages: ``chain_step_start``, ``chain_step_done``.
        attempt: which attempt it is, from 1 on: ``chain_step_start``.
        answers: how many responses the turn gave: ``chain_step_done``.
        from_agent: the agent that wrote: ``chain_handoff``, ``chain_ended``,
            ``handoff_refused``.
        texts: how many texts of the agent were not sent: ``handoff_refused``.
        hops: how many messages between agents led to it: ``chain_handoff``.
        team: the team's id: ``room_line``.
        line: the row in ``chat_messages``: ``room_line``.
        from: the agent that wrote, or ``user``: ``room_line``.
        session: the id of the new session: ``session_reset``, ``session_replayed``.
        before: the id of the session that it replaces: the same two.
        messages: how many messages the new session was given: ``session_replayed``.
        series_id: the schedule: ``series_updated``, ``series_paused``, ``series_resumed``, ``series_ended``,
            ``series_missed``.
        changed: names of what was changed: ``series_updated``.
        period, unit, amount: the budget: ``budget_nearly`` (80 %), ``budget_used_up``.
        due: the next instant, in ms UTC: ``series_updated``, ``series_resumed``; the first of those missed:
            ``series_missed``.
        conversation: the id: ``conversation_closed``.
        last_active: when it was written in last, in ms UTC: ``conversation_closed``.
        approval: the id: ``approval_*``.
        kind: of the approval: ``approval_*``.
        permission: the id: ``permission_used``.
        question: the id: ``question_*``.
        after: the last id that the history before it has: ``epoch_began``.
        agents: ids of all agents: ``processor_start``.
        teams: ids of all teams: ``processor_start``.
        provider: its name: ``provider_chosen``, ``session_changed_provider``.
        provider_before: whose session was left: ``session_changed_provider``.
    """

    running: bool
    reason: str
    failure: str
    retry_count: int
    process_after: int | None
    deliver_after: int | None
    part: int
    into: str
    batch: list[str]
    attempt: int
    answers: int
    from_agent: str
    texts: int
    hops: int
    team: str
    line: int
    session: str
    before: str
    messages: int
    series_id: str
    changed: list[str]
    due: int
    conversation: str
    last_active: int
    approval: str
    kind: str
    permission: str
    question: str
    after: int
    agents: list[str]
    teams: list[str]
    period: str
    unit: str
    amount: int
    code: str
    provider: str
    provider_before: str


class NewEvent(NamedTuple):
    """An event to record, by the columns of its table; *data* is ``EventData`` as JSON."""

    type: str
    created_at: int
    message_id: str | None = None
    response_id: int | None = None
    agent: str | None = None
    channel: str | None = None
    session_id: int | None = None
    data: str = "{}"


_INSERT = insert_into("events", NewEvent._fields)


class _OfMessage(Protocol):
    """What an event keeps of its message."""

    @property
    def message_id(self) -> str: ...

    @property
    def agent(self) -> str: ...

    @property
    def channel(self) -> str: ...

    @property
    def session_id(self) -> int: ...


class RecordedEvent(msgspec.Struct, frozen=True):
    """A row of ``events``."""

    id: int
    type: str
    message_id: str | None
    response_id: int | None
    agent: str | None
    channel: str | None
    data: EventData
    created_at: int


def append(
    conn: apsw.Connection,
    type_: str,
    *,
    now_ms: int,
    message_id: str | None = None,
    response_id: int | None = None,
    agent: str | None = None,
    channel: str | None = None,
    session_id: int | None = None,
    data: EventData | None = None,
) -> None:
    """Record an event, in the transaction of the change that it tells of."""
    text = json.dumps(data) if data else "{}"
    conn.execute(_INSERT, NewEvent(type_, now_ms, message_id, response_id, agent, channel, session_id, text))


def append_about(
    conn: apsw.Connection, type_: str, message: _OfMessage, data: EventData | None = None, *, now_ms: int
) -> None:
    """Record an event of a message, in the transaction of the change that it tells of."""
    append(
        conn,
        type_,
        now_ms=now_ms,
        message_id=message.message_id,
        agent=message.agent,
        channel=message.channel,
        session_id=message.session_id,
        data=data,
    )


def append_many(conn: apsw.Connection, new: Iterable[NewEvent]) -> None:
    """Record several events, in order."""
    conn.executemany(_INSERT, new)


def after(conn: apsw.Connection, last_id: int, *, limit: int) -> list[RecordedEvent]:
    """Up to *limit* events that came after *last_id*, oldest first."""
    found = rows(
        conn,
        """
        SELECT id, type, message_id, response_id, agent, channel, data, created_at
          FROM events
         WHERE id > :last
         ORDER BY id
         LIMIT :limit
        """,
        {"last": last_id, "limit": limit},
    )
    return [
        RecordedEvent(id_, type_, message_id, response_id, agent, channel, content.readable(data), created_at)
        for id_, type_, message_id, response_id, agent, channel, data, created_at in found
    ]


def latest_id(conn: apsw.Connection) -> int:
    """The newest event's id, 0 if there is none."""
    newest: int = scalar(conn, "SELECT ifnull(max(id), 0) FROM events")
    return newest


def prune(conn: apsw.Connection, *, older_than_ms: int, limit: int) -> int:
    """Delete events from before *older_than_ms*, of the *limit* oldest; returns how many.

    The newest stays, and so does what is not in the sums of ``event_totals`` yet.

    Ids have no other gaps but the one before each ``epoch_began`` (:mod:`shared.db.queue.epochs`). A reader that was
    away for longer than the retention has missed the deleted events.
    """
    conn.execute(_PRUNE, {"cutoff": older_than_ms, "limit": limit})
    return conn.changes()
