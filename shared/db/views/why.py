"""The facts that tell why a message has no answer: about a message in the queue, a held event, or a dropped one.

Messages are searched among the newest ``SEARCHED`` rows: people ask about what happened lately.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from shared.db.engine.connection import rows
from shared.db.engine.named_rows import NEWEST

SEARCHED = 50_000
COUNTED = 100  # earlier messages of a session: of more it is said that there are so many or more


class Of(NamedTuple):
    """What is searched for, by the platform's ids; None: any. *ref*: of the message, or of its event."""

    ref: str | None = None
    sender_id: str | None = None
    channel: str | None = None
    platform_id: str | None = None

    def values(self, limit: int) -> dict[str, str | int | None]:
        """The parameters of the searches."""
        return {**self._asdict(), "limit": limit, "searched": SEARCHED}


class Place(NamedTuple):
    """Where a message was written, and by whom, in ids and names."""

    channel: str
    platform_id: str | None
    chat_name: str | None
    sender_id: str | None
    sender: str


# -- messages


class ResponseFacts(NamedTuple):
    """A response to the message.

    Attributes:
        deliver_after: not before this instant; for a retry or a plan.
        chat_id: None where a client fetches the response.
        is_chat_inactive: the bot was removed from the chat, or blocked.
        silent_until: the platform asked for a pause in the chat until then.
        pause: why nothing of this channel is sent, or None.
        ahead: the oldest earlier response of the chat that is still to be sent, or None.
    """

    id: int
    channel: str
    status: str
    failure: str | None
    last_error: str | None
    retry_count: int
    deliver_after: int | None
    acked_at: int | None
    chat_id: int | None
    is_chat_inactive: bool
    silent_until: int | None
    pause: str | None
    ahead: int | None


class MessageFacts(NamedTuple):
    """A message, and what it may wait for.

    Attributes:
        running: the message of its session that a turn has, or None.
        retrying: an earlier message of its session that waits for its retry, which holds the session; or None.
        retrying_until: when that one is tried again.
        retrying_error: why its attempt failed.
        ahead: how many earlier messages of its session wait, of the oldest ``COUNTED``.
        busy_sessions: how many other sessions of its agent have a turn.
        responses: to the message, oldest first.
        has_spoken: a turn had said something about it.
        pause: why its agent is paused, or None; *pause_until*: when that ends by itself, or None.
        steered_into: the first message of the turn that was told this one while it ran, or None.
        gathers_until: until when its session waits for more lines of its sender, or None.
        asks: the approval that the program of its session's turn waits for, or None; *asks_what*: its title.
    """

    id: int
    message_id: str
    agent: str
    place: Place
    status: str
    trigger: bool
    retry_count: int
    failure: str | None
    last_error: str | None
    process_after: int | None
    lease: int | None
    series_id: str | None
    created_at: int
    concurrency: int
    is_agent_gone: bool
    running: str | None
    retrying: str | None
    retrying_until: int | None
    retrying_error: str | None
    ahead: int
    busy_sessions: int
    responses: Sequence[ResponseFacts]
    has_spoken: bool = False
    pause: str | None = None
    pause_until: int | None = None
    gathers_until: int | None = None
    steered_into: str | None = None
    asks: str | None = None
    asks_what: str | None = None


MESSAGE = """
    SELECT m.id, m.message_id, m.agent, m.channel, m.platform_id, c.name, m.sender_id, m.sender, m.status, m.trigger,
           m.retry_count, m.failure, m.last_error, m.process_after, m.lease, m.series_id, m.created_at,
           ifnull(a.concurrency, 1), a.id IS NULL OR a.retired_at IS NOT NULL, m.session_id,
           m.spoken IS NOT NULL, p.reason, p.until, m.gathers_until
      FROM messages m
      LEFT JOIN chats c ON c.channel = m.channel AND c.platform_id = m.platform_id
      LEFT JOIN agents a ON a.id = m.agent
      LEFT JOIN agent_pauses p ON p.agent = m.agent AND p.state = 'paused'
     WHERE m.id = :row
"""

_OPEN = "agent = :agent AND trigger = 1 AND (status = 'pending' OR status = 'processing')"
RUNNING = f"""
    SELECT message_id
      FROM messages
     WHERE {_OPEN} AND session_id = :session AND status = 'processing' AND id <> :row
     ORDER BY id
     LIMIT 1
"""
# The oldest of those before it: thousands may wait there. One that is tried again is among them: they go in order.
# What is planned is not.
AHEAD = f"""
    SELECT count(*), min(id) FILTER (WHERE process_after > :now AND failure IS NOT NULL)
      FROM (SELECT id, process_after, failure
              FROM messages
             WHERE {_OPEN} AND session_id = :session AND status = 'pending' AND id < :row
               AND (process_after IS NULL OR process_after <= :now OR failure IS NOT NULL)
             ORDER BY id
             LIMIT {COUNTED})
"""
RETRYING = "SELECT message_id, process_after, last_error FROM messages WHERE id = :row"
# A loose scan: one step of the index for each session of the agent, whatever waits in it. What runs stands first there.
BUSY = f"""
    WITH RECURSIVE open (session) AS (
        SELECT min(session_id) FROM messages WHERE {_OPEN}
         UNION ALL
        SELECT (SELECT min(session_id) FROM messages WHERE {_OPEN} AND session_id > session)
          FROM open
         WHERE session IS NOT NULL
    )
    SELECT count(*)
      FROM open
     WHERE EXISTS (SELECT 1 FROM messages WHERE {_OPEN} AND session_id = session AND status = 'processing')
"""

STEERED = """
    SELECT type, data ->> '$.into'
      FROM events
     WHERE message_id = :id AND type <> 'message_received' AND type <> 'chain_step_start' AND type <> 'chain_step_done'
       AND type <> 'response_ready' AND type <> 'response_acked'
       AND (type = 'message_steered' OR type = 'message_released')
     ORDER BY id DESC
     LIMIT 1
"""

_RESPONSE = """
    SELECT r.id, r.channel, r.status, r.failure, r.last_error, r.retry_count, r.deliver_after, r.acked_at, r.chat_id,
           ifnull(c.status, '') = 'inactive', c.not_before,
           coalesce((SELECT p.reason FROM channel_pauses p WHERE p.channel = r.channel),
                    (SELECT x.reason FROM channel_outages x WHERE x.channel = r.channel AND x.probe_at IS NOT NULL),
                    (SELECT h.reason
                       FROM call_holds h
                      WHERE h.channel = r.channel AND h.scope = 'bot' AND h.key = '' AND h.not_before > :now)),
           (SELECT min(o.id)
              FROM responses o
             WHERE o.channel = r.channel AND o.chat_id = r.chat_id AND (o.status = 'pending' OR o.status = 'delivering')
               AND o.id < r.id AND (o.deliver_after IS NULL OR o.deliver_after <= :now OR o.failure IS NOT NULL))
      FROM responses r
      LEFT JOIN chats c ON c.id = r.chat_id
"""
RESPONSES = f"{_RESPONSE} WHERE r.in_reply_to = :row AND r.status <> 'deleted' ORDER BY r.id LIMIT 100"
RESPONSE = f"{_RESPONSE} WHERE r.id = :row"


ASKS = """
    SELECT approval_id, title
      FROM approvals INDEXED BY approvals_pending
     WHERE status = 'pending' AND kind = 'tool' AND session_id = :session
     ORDER BY id
     LIMIT 1
"""


def message(
    conn: apsw.Connection, row_id: int, *, now_ms: int, busy_agents: dict[str, int] | None = None
) -> MessageFacts | None:
    """The facts of one message; None if it is pruned. *busy_agents*: what BUSY told of them for rows of the list."""
    found = rows(conn, MESSAGE, {"row": row_id})
    if not found:
        return None
    id_, message_id, agent, *place, status, trigger = found[0][:10]
    *fields, concurrency, is_gone, session, has_spoken, pause, pause_until, gathers = found[0][10:]
    of_session = {"agent": agent, "session": session, "row": row_id}
    running, ahead, first_retried, busy, retrying = [], 0, None, 0, []
    _, failure, _, process_after = fields[:4]
    is_planned = status == "pending" and failure is None and (process_after or 0) > now_ms
    is_due = status == "pending" and not is_planned
    if is_due:
        running = rows(conn, RUNNING, of_session)
        ((ahead, first_retried),) = rows(conn, AHEAD, {**of_session, "now": now_ms})
    if first_retried is not None:
        retrying = rows(conn, RETRYING, {"row": first_retried})
    elif is_due and not running:
        busy_agents = {} if busy_agents is None else busy_agents
        if agent not in busy_agents:
            ((busy_agents[agent],),) = rows(conn, BUSY, {"agent": agent})
        busy = busy_agents[agent]
    asks = rows(conn, ASKS, {"session": session}) if running or status == "processing" else []
    has_begun = not is_planned or has_spoken
    responses = _responses(rows(conn, RESPONSES, {"row": row_id, "now": now_ms})) if has_begun else []
    steered = rows(conn, STEERED, {"id": message_id}) if status == "completed" else []
    return MessageFacts._make([
        id_, message_id, agent, Place(*place), status, bool(trigger), *fields, concurrency, bool(is_gone),
        running[0][0] if running else None, *(retrying[0] if retrying else (None, None, None)), ahead, busy,
        responses, bool(has_spoken), pause, pause_until, gathers, next((into for _, into in steered if into), None),
        *(asks[0] if asks else (None, None)),
    ])  # fmt: skip


def response(conn: apsw.Connection, row_id: int, *, now_ms: int) -> ResponseFacts | None:
    """The facts of one response; None if it is pruned."""
    found = _responses(rows(conn, RESPONSE, {"row": row_id, "now": now_ms}))
    return found[0] if found else None


def _responses(found: list[tuple[Any, ...]]) -> list[ResponseFacts]:
    return [ResponseFacts(*row)._replace(is_chat_inactive=bool(row[9])) for row in found]


MESSAGES = """
    SELECT id, created_at
      FROM messages
     WHERE id > (SELECT max(id) FROM messages) - :searched
       AND (:ref IS NULL OR platform_message_id = :ref OR event_key = :ref)
       AND (:sender_id IS NULL OR sender_id = :sender_id) AND (:channel IS NULL OR channel = :channel)
       AND (:platform_id IS NULL OR platform_id = :platform_id) AND from_agent IS NULL
     ORDER BY id DESC
     LIMIT :limit
"""


def messages(conn: apsw.Connection, of: Of, *, limit: int) -> list[int]:
    """The rows of the newest messages like this, newest first."""
    return [id_ for id_, _ in rows(conn, MESSAGES, of.values(limit))]


# -- held events


class HeldFacts(NamedTuple):
    """An event that is held for an approval. *approver*: the person who has the card, or None."""

    id: int
    place: Place
    agent: str | None
    approval_id: str
    title: str
    approver: str | None
    expires_at: int
    created_at: int


_HELD = """
    SELECT h.id, h.channel, h.event ->> '$.platform_id', c.name, h.event ->> '$.sender_id', h.event ->> '$.sender',
           a.agent, a.approval_id, a.title,
           (SELECT u.channel || ' ' || u.sender_id || iif(u.name = '', '', ' (' || u.name || ')')
              FROM users u
             WHERE u.id = a.approver),
           a.expires_at, h.created_at
      FROM held h
      JOIN approvals a ON a.id = h.approval_id
      LEFT JOIN chats c ON c.channel = h.channel AND c.platform_id = h.event ->> '$.platform_id'
"""
# Strangers can cause a bounded number of them only, so they are read one after the other.
HELD = f"""
{_HELD}
     WHERE (:ref IS NULL OR h.event ->> '$.platform_message_id' = :ref OR h.event_key = :ref OR a.approval_id = :ref
            OR 'held_' || h.id = :ref)
       AND (:sender_id IS NULL OR h.event ->> '$.sender_id' = :sender_id) AND (:channel IS NULL OR h.channel = :channel)
       AND (:platform_id IS NULL OR h.event ->> '$.platform_id' = :platform_id) AND h.id < :before
     ORDER BY h.id DESC
     LIMIT :limit
"""


def held(conn: apsw.Connection, of: Of, *, before: int = NEWEST, limit: int) -> list[HeldFacts]:
    """The newest held events like this before a row; *ref* may also be the approval's id, or ``held_`` and the row."""
    values = {**of._asdict(), "before": before, "limit": limit}
    return [HeldFacts(row[0], Place(*row[1:6]), *row[6:]) for row in rows(conn, HELD, values)]


# -- dropped events


class DroppedFacts(NamedTuple):
    """A dropped event; *reason* and *detail* are its words."""

    id: int
    place: Place
    reason: str
    detail: str
    created_at: int


DROPPED_FACTS = """
    SELECT d.id, d.channel, d.platform_id,
           (SELECT name FROM chats WHERE channel = d.channel AND platform_id = d.platform_id),
           d.sender_id,
           coalesce(nullif(d.sender, ''),
                    (SELECT name FROM users WHERE channel = d.channel AND sender_id = d.sender_id), ''),
           d.reason, d.detail, d.created_at
      FROM dropped d
"""
DROPPED = f"""
{DROPPED_FACTS}
     WHERE d.id > (SELECT max(id) FROM dropped) - :searched
       AND (:ref IS NULL OR d.platform_message_id = :ref OR d.event_key = :ref OR 'dropped_' || d.id = :ref)
       AND (:sender_id IS NULL OR d.sender_id = :sender_id) AND (:channel IS NULL OR d.channel = :channel)
       AND (:platform_id IS NULL OR d.platform_id = :platform_id) AND d.id < :before
     ORDER BY d.id DESC
     LIMIT :limit
"""


def dropped(conn: apsw.Connection, of: Of, *, before: int = NEWEST, limit: int) -> list[DroppedFacts]:
    """The newest dropped events like this before a row; *ref* may also be ``dropped_`` and the row."""
    values = {**of.values(limit), "before": before}
    return [DroppedFacts(row[0], Place(*row[1:6]), *row[6:]) for row in rows(conn, DROPPED, values)]


# -- albums


ALBUMS = """
    SELECT DISTINCT a.platform_message_id, a.channel, a.platform_id
      FROM album_pieces p
      JOIN albums a ON a.id = p.album_id
     WHERE (p.platform_message_id = :ref OR p.event_key = :ref) AND a.platform_message_id IS NOT NULL
       AND a.platform_message_id <> :ref AND a.status = 'joined'
       AND (:channel IS NULL OR a.channel = :channel) AND (:platform_id IS NULL OR a.platform_id = :platform_id)
     ORDER BY a.id DESC
     LIMIT :limit
"""


def albums(conn: apsw.Connection, of: Of, *, limit: int) -> list[Of]:
    """The messages that the pieces with this id became a part of, to search for."""
    values = {"ref": of.ref, "channel": of.channel, "platform_id": of.platform_id, "limit": limit}
    found = rows(conn, ALBUMS, values) if of.ref is not None else []
    return [Of(ref, of.sender_id, channel, platform_id) for ref, channel, platform_id in found]


class GatheringFacts(NamedTuple):
    """A piece of an album that waits for the others. *due_at*: when the album is whole, unless another piece comes."""

    id: int
    place: Place
    due_at: int
    created_at: int


_GATHERING = """
    SELECT p.id, a.channel, a.platform_id,
           (SELECT name FROM chats WHERE channel = a.channel AND platform_id = a.platform_id),
           a.sender_id, ifnull(p.event ->> '$.sender', ''), a.due_at, p.created_at
      FROM albums a
      JOIN album_pieces p ON p.album_id = a.id
     WHERE a.status = 'gathering' AND p.event IS NOT NULL
       AND (:ref IS NULL OR p.platform_message_id = :ref OR p.event_key = :ref)
       AND (:sender_id IS NULL OR a.sender_id = :sender_id) AND (:channel IS NULL OR a.channel = :channel)
       AND (:platform_id IS NULL OR a.platform_id = :platform_id)
     ORDER BY p.id DESC
     LIMIT :limit
"""


def gathering(conn: apsw.Connection, of: Of, *, limit: int) -> list[GatheringFacts]:
    """The newest pieces of albums like this that wait for the others."""
    found = rows(conn, _GATHERING, {**of._asdict(), "limit": limit})
    return [GatheringFacts(row[0], Place(*row[1:6]), *row[6:]) for row in found]
