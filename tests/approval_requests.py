"""Helpers for the tests of approvals and pairing: approvers, strangers, and their events."""

import json
from typing import Any

import apsw

from shared.channels.base import Event
from shared.conversation.access import new_chats, new_people, people
from shared.conversation.access.requests import AskResult
from shared.core.policy import AccessPolicy
from shared.db.access import held_events, users
from shared.db.access.users import User
from shared.db.engine.connection import rows, transaction
from shared.db.roster import chats
from tests.support import NOW

POLICY = AccessPolicy(approval_life_ms=1_000_000)
LATE = NOW + POLICY.approval_life_ms


def event(key: str = "1", sender: str | None = "5", chat: str = "100", **fields: Any) -> Event:
    """A message of the stranger Ana; *fields* replace its values."""
    values = {"sender": "Ana", "text": f"text of {key}", "is_mention": True, "platform_message_id": f"m{key}"}
    return Event(**{"kind": "message", "event_key": key, "platform_id": chat, "sender_id": sender, **values, **fields})


def person(
    conn: apsw.Connection,
    sender_id: str,
    role: str | None = None,
    agent: str | None = None,
    *,
    channel: str = "telegram",
    now_ms: int = NOW,
) -> User:
    """A person, with *role* if it is given."""
    with transaction(conn):
        user = users.ensure(conn, channel, sender_id, name=f"N{sender_id}", now_ms=NOW)
        if role is not None:
            people.grant(conn, user.id, role, agent, by="test", now_ms=now_ms)
    return user


def ask_sender(conn: apsw.Connection, what: Event, agent: str = "assistant", now_ms: int = NOW) -> AskResult:
    """Ask about the sender, in a chat that exists."""
    with transaction(conn):
        chat = chats.find(conn, "telegram", what.platform_id or "")
        assert chat is not None
        return new_people.ask_sender(conn, chat, what, agent, policy=POLICY, now_ms=now_ms)


def ask_chat(conn: apsw.Connection, what: Event, now_ms: int = NOW) -> AskResult:
    """Ask about the chat, which is made if it is new."""
    with transaction(conn):
        place, is_group = what.platform_id or "", what.is_group
        chat = chats.ensure(conn, "telegram", place, is_group=is_group, sender_policy=POLICY.of_new_chats, now_ms=NOW)
        return new_chats.ask_chat(conn, chat, what, policy=POLICY, now_ms=now_ms)


def shown(conn: apsw.Connection) -> list[tuple[str, dict[str, Any]]]:
    """The chat and the content of every response, in order."""
    found = rows(conn, "SELECT channel || ' ' || platform_id, content FROM responses ORDER BY id")
    return [(place, json.loads(content)) for place, content in found]


def hold_many(conn: apsw.Connection, count: int) -> None:
    """Hold so many messages of the stranger in chat 100, one in each ms from ``NOW``."""
    person(conn, "1", "owner")
    asked = ask_sender(conn, event())
    assert asked.approval is not None
    with transaction(conn):
        text = held_events.of_approval(conn, asked.approval.id)[0].event
        for number in range(1, count):
            held_events.hold(conn, asked.approval.id, "telegram", f"held {number}", text, now_ms=NOW + number)
