"""Helpers for the tests of rows: a literal instant, and rows made with one call."""

import itertools
import json
import os
from collections.abc import Iterable
from typing import Any

import apsw
import pytest

from shared.core import chance, ids
from shared.db.access import user_roles, users
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, epochs, messages, responses, sessions
from shared.db.queue.claims import Claim
from shared.db.queue.messages import NewMessage, storing
from shared.db.queue.responses import NewResponse
from shared.db.roster import agents, chats
from shared.roster import wirings

NOW = 1_800_000_000_000  # 2027-01-15T08:00:00Z
LEASE = 30_000
TICK = {"x-postroom-tick": "tick-secret"}
_numbers = itertools.count(1)


def make_agent(conn: apsw.Connection, agent: str, **settings: Any) -> str:
    """An agent with the echo provider, but for *settings*."""
    with transaction(conn):
        agents.save(conn, agents.Agent(agent, agent.title(), **settings), now_ms=NOW)
    return agent


def make_owner(conn: apsw.Connection, sender: str = "1") -> int:
    """The id of a user on Telegram, an owner."""
    with transaction(conn):
        user = users.ensure(conn, "telegram", sender, name="Olga", now_ms=NOW)
        user_roles.grant(conn, user.id, "owner", None, by="a test", now_ms=NOW)
    return user.id


def make_chat(conn: apsw.Connection, chat: str = "100", channel: str = "telegram", *, is_group: bool = False) -> int:
    """The id of the chat, new or not."""
    with transaction(conn):
        return chats.ensure(conn, channel, chat, is_group=is_group, now_ms=NOW).id


def make_session(
    conn: apsw.Connection, agent: str = "assistant", chat: str = "100", thread: str | None = None
) -> tuple[int, int]:
    """The ids of the chat and of its session with *agent*."""
    chat_id = make_chat(conn, chat)
    with transaction(conn):
        return chat_id, sessions.ensure(conn, agent, chat_id, thread, now_ms=NOW)


def wire(conn: apsw.Connection, chat_id: int, agent: str = "assistant", *, policy: str = "drop", **values: Any) -> None:
    """Let *agent* answer in the chat."""
    with transaction(conn):
        wirings.connect(conn, chat_id, agent, {"ignored_message_policy": policy, **values}, now_ms=NOW)


def put(
    conn: apsw.Connection,
    text: str = "hello",
    *,
    agent: str = "assistant",
    chat: str = "100",
    thread: str | None = None,
    now_ms: int = NOW,
    **fields: Any,
) -> int | None:
    """Enqueue a message into the session of *agent* in *chat*; the row's id."""
    chat_id, session = make_session(conn, agent, chat, thread)
    values = {"id_prefix": "telegram", "sender": "Ana", "sender_id": "5", **fields}
    values |= {name: json.dumps(values[name]) for name in ("content", "files") if name in values}
    with transaction(conn):
        return messages.enqueue(
            conn,
            NewMessage(
                channel="telegram",
                chat_id=chat_id,
                platform_id=chat,
                thread_id=thread,
                message=text,
                agent=agent,
                session_id=session,
                **values,
            ),
            now_ms=now_ms,
        )


def take(
    conn: apsw.Connection,
    *,
    agent: str = "assistant",
    chat: str = "100",
    token: str = "turn_a",
    now_ms: int = NOW,
    limit: int = 10,
    **key: Any,
) -> Claim | None:
    """Claim the session's turn."""
    _, session = make_session(conn, agent, chat, **key)
    with transaction(conn):
        return claims.claim(conn, agent, session, token=token, now_ms=now_ms, lease_ms=LEASE, limit=limit)


def begin_epoch(conn: apsw.Connection, epoch: str = "epoch_2", *, now_ms: int = NOW) -> None:
    """What a restore, and the start after it, do to the rows."""
    with transaction(conn):
        epochs.name(conn, epoch)
        epochs.begin(conn, now_ms=now_ms)


def texts(claim: Claim | None) -> list[str]:
    """The texts of the batch."""
    return [message.message for message in claim.batch] if claim else []


def answer(
    conn: apsw.Connection, text: str = "hi", *, chat: str = "100", channel: str = "telegram", **fields: Any
) -> int:
    """Enqueue a response; its id."""
    chat_id = make_chat(conn, chat, channel)
    values = {"message_id": f"proactive_{next(_numbers):08d}", "sender": "Ana", **fields}
    values |= {name: json.dumps(values[name]) for name in ("content", "metadata") if name in values}
    now_ms = values.pop("now_ms", NOW)
    with transaction(conn):
        return responses.enqueue(
            conn,
            NewResponse(channel=channel, chat_id=chat_id, platform_id=chat, message=text, **values),
            now_ms=now_ms,
        )


def row(conn: apsw.Connection, table: str, id_: int | None = None) -> dict[str, Any]:
    """One row by its id, or the newest."""
    cursor = conn.execute(f"SELECT * FROM {table} WHERE id = ifnull(?, (SELECT max(id) FROM {table}))", (id_,))
    names = [column[0] for column in cursor.get_description()]
    (values,) = cursor.fetchall()
    cursor.close()
    return dict(zip(names, values, strict=True))


def enqueue_all(conn: apsw.Connection, news: Iterable[NewMessage], *, now_ms: int) -> None:
    """Store messages, in order; inside a transaction."""
    for new in news:
        messages.enqueue(conn, new, now_ms=now_ms)


def draw(monkeypatch: pytest.MonkeyPatch, *made: str) -> None:
    """Let the operating system's randomness make these next, each some of ``[0-9a-z]``; then its own again.

    The id of a message needs 5: its burst begins with ``aaa``.
    """
    monkeypatch.setattr(storing, "_ids", ids.Burst("aaa", left=256))
    waiting = list(made)

    def urandom(count: int) -> bytes:
        if not waiting:
            return os.urandom(count)
        drawn = bytes(map(ids.ALPHABET.index, waiting.pop(0)))
        return drawn.ljust(count, b"\xff")  # the package passes over a byte beyond the alphabet

    monkeypatch.setattr(chance, "_draw", urandom)


def column(conn: apsw.Connection, sql: str, **parameters: Any) -> list[Any]:
    """The first column of all rows."""
    return [found[0] for found in rows(conn, sql, parameters)]


def plan(conn: apsw.Connection, sql: str, **parameters: Any) -> list[str]:
    """The lines of the query plan."""
    return [found[3] for found in rows(conn, f"EXPLAIN QUERY PLAN {sql}", parameters)]


def dump(conn: apsw.Connection) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of the database, to compare it before and after."""
    tables = column(conn, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return {table: rows(conn, f"SELECT * FROM {table} ORDER BY 1") for table in tables}
