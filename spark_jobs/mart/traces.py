"""The data of people who were removed from the mart: their ids, their messages, and the rows that belong to them.

A person may have more ids than the one that an operator names: on some platforms, the private chat has its own id,
which only the rows of the mart or the replica have. Both are read in the same way; ids may be hashed.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

Reader = Callable[[str, Sequence[str]], Iterator[pa.RecordBatch]]
"""Reads the existing columns of a table; nothing if there is no such table."""
IsTheirs = Callable[[str | None, str | None], bool]
"""Whether an account of a platform and an id on it are of a person who was taken out."""

_COLUMNS = (
    *("id", "message_id", "in_reply_to", "channel", "chat_id", "platform_id", "platform_message_id"),
    *("sender", "sender_id", "content"),
)
_CARRIED = ('"origin"', '"behalf"')  # keys of ``messages.content`` of what agents write to each other


@dataclass(frozen=True, slots=True)
class Traces:
    """What belongs to the people who were taken out.

    Args:
        messages: the ids of the messages that they wrote or got, of what answers them, and of what agents wrote to each
            other because of these.
        rows: the same by the number of the row of ``messages``.
        lines: what agents said in the rooms of their teams because of these, by the row of ``chat_messages``.
        quotable: messages and answers as a reply quotes them: the conversation, and the platform's id of the message.
        ids: of their private chats, each with its channel.
        names: what they are called.
    """

    messages: frozenset[str] = frozenset()
    rows: frozenset[int] = frozenset()
    lines: frozenset[int] = frozenset()
    quotable: frozenset[tuple[str, str]] = frozenset()
    ids: frozenset[tuple[str, str]] = frozenset()
    names: frozenset[str] = frozenset()


def traces_of(read: Reader, is_theirs: IsTheirs) -> Traces:
    """Collect it by *read*. Private chats are found by the messages in them, and by ``user_dms``."""
    names: set[str] = set()
    chats = _private_chats(read, is_theirs, names)

    def is_of_them(channel: str | None, value: str | None) -> bool:
        return is_theirs(channel, value) or (_platform(channel), value or "") in platforms

    platforms = {(_platform(channel), place) for channel, place in chats}
    found = _Rows(names)
    chained = []
    for row in _rows(read, "messages", _COLUMNS):
        carried = _carried(row.pop("content"))
        if is_of_them(row["channel"], row["sender_id"]) or is_of_them(row["channel"], row["platform_id"]):
            found.add(row)
            found.rows.add(row["id"])
            if is_theirs(row["channel"], row["sender_id"]):
                names.add(row["sender"] or "")
        elif carried:
            chained.append((row, carried))
    lines: set[int] = set()
    for row, carried in chained:
        asked_for = carried.get("behalf") or {}
        is_for_them = is_of_them(asked_for.get("channel"), asked_for.get("sender_id"))
        if is_for_them or carried.get("origin") in found.messages:
            found.add(row)
            found.rows.add(row["id"])
            lines |= {carried["line"]} if "line" in carried else set()
    for row in _rows(read, "responses", _COLUMNS):
        began_with = _carried(row.pop("content")).get("origin")
        is_answer = row["in_reply_to"] in found.rows or not found.messages.isdisjoint((row["message_id"], began_with))
        if is_answer or is_of_them(row["channel"], row["sender_id"]) or is_of_them(row["channel"], row["platform_id"]):
            found.add(row)
    return Traces(
        frozenset(found.messages - {""}),
        frozenset(found.rows),
        frozenset(lines),
        frozenset(found.quotable),
        frozenset(chats),
        frozenset(names - {""}),
    )


@dataclass(slots=True)
class _Rows:
    names: set[str]
    messages: set[str] = field(default_factory=set)
    rows: set[int] = field(default_factory=set)
    quotable: set[tuple[str, str]] = field(default_factory=set)

    def add(self, row: dict[str, Any]) -> None:
        self.messages.add(row["message_id"] or "")
        if row["platform_id"] and row["platform_message_id"]:
            self.quotable.add((row["platform_id"], row["platform_message_id"]))


def _private_chats(read: Reader, is_theirs: IsTheirs, names: set[str]) -> set[tuple[str, str]]:
    """Channel and id of each chat that is not a group and in which nobody else wrote."""
    writers: defaultdict[int, set[bool]] = defaultdict(set)
    for row in _rows(read, "messages", ("channel", "chat_id", "sender_id")):
        if row["chat_id"] is not None and row["sender_id"]:
            writers[row["chat_id"]].add(is_theirs(row["channel"], row["sender_id"]))
    users = set()
    for row in _rows(read, "users", ("id", "channel", "sender_id", "name")):
        if is_theirs(row["channel"], row["sender_id"]):
            users.add(row["id"])
            names.add(row["name"] or "")
    direct = {row["chat_id"] for row in _rows(read, "user_dms", ("user_id", "chat_id")) if row["user_id"] in users}
    found = set()
    for row in _rows(read, "chats", ("id", "channel", "platform_id", "name", "is_group")):
        is_written = row["id"] in direct or writers[row["id"]] == {True}
        is_their_own = is_written or is_theirs(row["channel"], row["platform_id"])
        if is_their_own and not row["is_group"]:
            found.add((row["channel"], row["platform_id"]))
            names.add(row["name"] or "")
    return found


def _rows(read: Reader, table: str, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    for batch in read(table, columns):
        for row in batch.to_pylist():
            yield {name: row.get(name) for name in columns}


def _carried(content: str | None) -> dict[str, Any]:
    """The content of a message that an agent wrote because of another message; empty for other messages."""
    if not content or not any(key in content for key in _CARRIED):
        return {}
    try:
        facts = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _platform(channel: str | None) -> str:
    return (channel or "").partition(".")[0]
