"""Wires agents to chats: the one way for REST, CLI, approvals, pairing and routing, so that none is left half made."""

from collections.abc import Mapping
from typing import Any, TypedDict, get_args

import apsw

from shared.channels import registry
from shared.core import patterns
from shared.core.errors import ConfigInvalid, NotFound
from shared.db.roster import agents, chats, destinations, wirings
from shared.db.roster.chats import Chat
from shared.db.roster.wirings import EngageMode, IgnoredMessagePolicy, SenderScope, SessionMode, Wiring

WORDS: Mapping[str, tuple[str, ...]] = {
    "engage_mode": get_args(EngageMode),
    "sender_scope": get_args(SenderScope),
    "ignored_message_policy": get_args(IgnoredMessagePolicy),
    "session_mode": get_args(SessionMode),
}
_HIGHEST = 1_000_000  # priority, and the lowest the same below zero
FIELDS = (*WORDS, "engage_pattern", "priority")


class WiringChange(TypedDict, total=False):
    """What can be said of a wiring; what is left out stays, or is what suits the chat if the wiring is new."""

    engage_mode: str
    engage_pattern: str | None
    sender_scope: str
    ignored_message_policy: str
    session_mode: str
    priority: int


def defaults_for(chat: Chat, has_threads: bool) -> WiringChange:
    """What suits the chat where nobody said more. Pure. Never an agent that answers everything in a group."""
    if chat.is_group and has_threads:
        return {"engage_mode": "mention-sticky", "session_mode": "per-thread"}
    return {"engage_mode": "mention", "session_mode": "shared"}


def connect(
    conn: apsw.Connection, chat_id: int, agent: str, changes: Mapping[str, Any] | None = None, *, now_ms: int
) -> Wiring:
    """Let *agent* answer in the chat, or change how it does; the wiring as it is now. A refused chat no longer is.

    Args:
        changes: a ``WiringChange``.

    Raises:
        NotFound: there is no such chat, or no such agent.
        ConfigInvalid: something of *changes* can't be; the message says what, and what could.
    """
    chat = chats.get(conn, chat_id)
    if chat is None:
        raise NotFound(f"there is no chat {chat_id} to wire {agent!r} to; GET /api/chats lists them")
    if agents.get(conn, agent) is None:
        raise NotFound(f"there is no agent {agent!r} to wire to chat {chat_id}; GET /api/agents lists them")
    known = wirings.get(conn, chat_id, agent)
    wanted = {**_as_it_is(chat, known), **(changes or {})}
    _check(wanted)
    wiring = wirings.put(conn, chat_id, agent, now_ms=now_ms, **wanted)
    destinations.name_after_chat(conn, agent, chat_id)
    if chat.refused_at is not None:
        chats.update(conn, chat_id, status="active", refused_at=None, now_ms=now_ms)  # it may have been retired
    return wiring


def _as_it_is(chat: Chat, known: Wiring | None) -> dict[str, Any]:
    if known is not None:
        return {field: getattr(known, field) for field in FIELDS}
    rest = {"engage_pattern": None, "sender_scope": "all", "ignored_message_policy": "drop", "priority": 0}
    return {**rest, **defaults_for(chat, registry.traits(chat.channel).has_threads)}


def _check(wanted: Mapping[str, Any]) -> None:
    unknown = sorted(wanted.keys() - set(FIELDS))
    if unknown:
        raise ConfigInvalid(f"a wiring has no {', '.join(unknown)}; it has {', '.join(FIELDS)}")
    for field, words in WORDS.items():
        if wanted[field] not in words:
            raise ConfigInvalid(f"{field} {wanted[field]!r} of a wiring is none of {', '.join(words)}")
    if type(wanted["priority"]) is not int or abs(wanted["priority"]) > _HIGHEST:
        raise ConfigInvalid(f"priority {wanted['priority']!r} of a wiring is no whole number up to {_HIGHEST}")
    pattern = wanted["engage_pattern"]
    if not isinstance(pattern, str | None):
        raise ConfigInvalid(f"engage_pattern {pattern!r} of a wiring is no text")
    if pattern is not None:
        patterns.check(pattern)
    elif wanted["engage_mode"] == "pattern":
        raise ConfigInvalid("a wiring that engages by pattern needs an engage_pattern; '.' matches every text")


def disconnect(conn: apsw.Connection, chat_id: int, agent: str) -> bool:
    """The agent answers in the chat no more, and may not send there; its sessions stay. False: it did not."""
    return wirings.delete(conn, chat_id, agent)
