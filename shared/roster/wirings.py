"""Wires agents to chats. REST, CLI, approvals, pairing and routing all do it here, so that no wiring is half made."""

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

import apsw

from shared.channels import registry
from shared.core.errors import ConfigInvalid, NotFound, WrongState
from shared.core.text import patterns
from shared.db.queue.message_row import LONGEST_DEBOUNCE_MS
from shared.db.roster import agents, chats, destinations, wirings
from shared.db.roster.chats import Chat
from shared.db.roster.wirings import HIGHEST_PRIORITY, SETTINGS, Wiring

Others = Literal["keep", "remove", "refuse"]


class WiringChange(TypedDict, total=False):
    """The fields of a wiring that can change. A missing field stays, or gets the chat's default in a new wiring."""

    engage_mode: str
    engage_pattern: str | None
    sender_scope: str
    ignored_message_policy: str
    session_mode: str
    priority: int
    while_busy: str
    debounce_ms: int | None


def defaults_for(chat: Chat, has_threads: bool) -> WiringChange:
    """The defaults for a new wiring. Pure. By default no agent answers everything in a group."""
    if chat.is_group and has_threads:
        return {"engage_mode": "mention-sticky", "session_mode": "per-thread"}
    return {"engage_mode": "mention", "session_mode": "shared"}


def connect(
    conn: apsw.Connection, chat_id: int, agent: str, changes: Mapping[str, Any] | None = None, *, now_ms: int
) -> Wiring:
    """Create or change the wiring of *agent* in the chat; the wiring as it is now. The chat is no longer refused.

    Args:
        changes: a ``WiringChange``.

    Raises:
        NotFound: there is no such chat, or no such agent.
        ConfigInvalid: a field of *changes* is invalid; the message says which, and lists the valid words.
    """
    chat = _known_chat(conn, chat_id, agent)
    wiring = wirings.put(conn, chat_id, agent, wanted(conn, chat_id, agent, changes or {}), now_ms=now_ms)
    destinations.name_after_chat(conn, agent, chat_id)
    if chat.refused_at is not None:
        chats.update(conn, chat_id, status="active", refused_at=None, now_ms=now_ms)  # the chat may have been retired
    return wiring


def wanted(conn: apsw.Connection, chat_id: int, agent: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of the wiring as ``connect`` would save it.

    Raises:
        NotFound, ConfigInvalid: as ``connect`` does.
    """
    chat = _known_chat(conn, chat_id, agent)
    found = {**_known_or_default(chat, wirings.get(conn, chat_id, agent)), **changes}
    _check(found)
    return found


def settings_now(conn: apsw.Connection, chat_id: int, agent: str) -> dict[str, Any] | None:
    """The settings of the wiring, or None: there is no such wiring."""
    known = wirings.get(conn, chat_id, agent)
    return None if known is None else _settings(known)


def _known_chat(conn: apsw.Connection, chat_id: int, agent: str) -> Chat:
    chat = chats.get(conn, chat_id)
    if chat is None:
        raise NotFound(f"there is no chat {chat_id} to wire {agent!r} to; GET /api/chats lists them")
    if agents.get(conn, agent) is None:
        raise NotFound(f"there is no agent {agent!r} to wire to chat {chat_id}; GET /api/agents lists them")
    return chat


def _known_or_default(chat: Chat, known: Wiring | None) -> dict[str, Any]:
    if known is not None:
        return _settings(known)
    new = {name: each.default for name, each in SETTINGS.items()}
    return {**new, **defaults_for(chat, registry.traits(chat.channel).has_threads)}


def _settings(wiring: Wiring) -> dict[str, Any]:
    return {name: getattr(wiring, name) for name in SETTINGS}


def _check(wanted: Mapping[str, Any]) -> None:
    unknown = sorted(wanted.keys() - SETTINGS.keys())
    if unknown:
        raise ConfigInvalid(f"a wiring has no {', '.join(unknown)}; it has {', '.join(SETTINGS)}")
    for name, each in SETTINGS.items():
        if each.words and wanted[name] not in each.words:
            raise ConfigInvalid(f"{name} {wanted[name]!r} of a wiring is none of {', '.join(each.words)}")
    highest = HIGHEST_PRIORITY
    if type(wanted["priority"]) is not int or abs(wanted["priority"]) > highest:
        raise ConfigInvalid(
            f"priority {wanted['priority']!r} of a wiring is not a whole number from -{highest} to {highest}"
        )
    debounce_ms = wanted["debounce_ms"]
    if debounce_ms is not None and not (type(debounce_ms) is int and 0 <= debounce_ms <= LONGEST_DEBOUNCE_MS):
        raise ConfigInvalid(
            f"debounce_ms {debounce_ms!r} of a wiring is not a whole number from 0 to {LONGEST_DEBOUNCE_MS}"
        )
    pattern = wanted["engage_pattern"]
    if not isinstance(pattern, str | None):
        raise ConfigInvalid(f"engage_pattern {pattern!r} of a wiring is not a text")
    if pattern is not None:
        patterns.check(pattern)
    elif wanted["engage_mode"] == "pattern":
        raise ConfigInvalid("a wiring that engages by pattern needs an engage_pattern; '.' matches every text")


def disconnect(conn: apsw.Connection, chat_id: int, agent: str) -> bool:
    """Delete the wiring and its destination; the sessions stay. False: there is no such wiring."""
    return wirings.delete(conn, chat_id, agent)


def connect_beside(
    conn: apsw.Connection,
    chat_id: int,
    agent: str,
    changes: Mapping[str, Any] | None = None,
    *,
    others: Others,
    now_ms: int,
) -> list[str]:
    """Create or change the wiring as ``connect`` does, and deal with other agents of the chat; those that were removed.

    Args:
        others: ``keep`` them, and each answers what is meant for it; ``remove`` their wirings, and a new wiring takes
            over the fields of the only one; or ``refuse`` a new wiring beside them.

    Raises:
        NotFound, ConfigInvalid: as ``connect`` does.
        WrongState: the wiring would be new, another agent answers there, and *others* is ``refuse``.
    """
    _known_chat(conn, chat_id, agent)
    wired = wirings.of_chat(conn, chat_id)
    rest = [each for each in wired if each.agent != agent]
    is_new = len(rest) == len(wired)
    if others == "refuse" and is_new and rest:
        raise WrongState(_both_would_answer(chat_id, agent, [each.agent for each in rest]))
    moved: dict[str, Any] = {}
    if others == "remove" and is_new and len(rest) == 1:
        moved = _settings(rest[0])
    connect(conn, chat_id, agent, {**moved, **(changes or {})}, now_ms=now_ms)
    if others != "remove":
        return []
    for each in rest:
        disconnect(conn, chat_id, each.agent)
    return [each.agent for each in rest]


def _both_would_answer(chat_id: int, agent: str, others: list[str]) -> str:
    names = " and ".join(others)
    return (
        f"chat {chat_id} has {names}, and with {agent} too each of them would answer: add ?others=remove to let "
        f"{agent} answer instead, or ?others=keep if you want them all"
    )


def beside(conn: apsw.Connection, chat_id: int, agent: str) -> str:
    """The other agents that answer in the chat, each for itself: `` beside Ada and Ben``; empty if there is none."""
    others = [agents.get(conn, each.agent) for each in wirings.of_chat(conn, chat_id) if each.agent != agent]
    names = " and ".join(each.name for each in others if each is not None)
    return f" beside {names}" if names else ""
