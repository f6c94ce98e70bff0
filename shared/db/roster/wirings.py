"""Wirings: which agent answers in which chat, and when. ``shared.roster.wirings`` checks and saves them."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import apsw
from annotated_types import Ge, Le, MaxLen

from shared.core.row_settings import RowSetting, settings_of
from shared.db.engine.columns import bound, listed, replaced
from shared.db.engine.connection import rows
from shared.db.queue.message_row import LONGEST_DEBOUNCE_MS
from shared.db.roster.chats import Chat

EngageMode = Literal["pattern", "mention", "mention-sticky"]
SenderScope = Literal["all", "known"]
IgnoredMessagePolicy = Literal["drop", "accumulate"]
SessionMode = Literal["shared", "per-thread", "agent-shared"]
WhileBusy = Literal["collect", "steer", "followup", "interrupt"]
HIGHEST_PRIORITY = 1_000_000  # the lowest is its negative
_DEBOUNCE_MS = 1000  # of agents that ask a model: a turn in vain costs money


class Wiring(NamedTuple):
    """A row of ``wirings``, and the one list of a wiring's settings: see :mod:`shared.core.row_settings`."""

    id: int
    chat_id: int
    agent: str
    created_at: int
    engage_mode: Annotated[
        EngageMode,
        RowSetting(
            "When it answers. mention: to mentions, and in direct chats; mention-sticky: also from then on in that "
            "thread; pattern: when --pattern matches.",
            "when",
            option="--mode",
        ),
    ] = "mention"
    engage_pattern: Annotated[
        str | None,
        MaxLen(500),
        RowSetting(
            "A regular expression (RE2) for --mode pattern.",
            "pattern",
            "RE2; needed if engageMode is pattern",
            option="--pattern",
        ),
    ] = None
    sender_scope: Annotated[
        SenderScope,
        RowSetting(
            "Whom it answers: everyone whom the chat lets in, or known users only.", "to whom", option="--scope"
        ),
    ] = "all"
    ignored_message_policy: Annotated[
        IgnoredMessagePolicy,
        RowSetting(
            "What happens to the other messages; accumulate: the agent reads them at its next turn.",
            "the rest",
            option="--ignored",
        ),
    ] = "drop"
    session_mode: Annotated[
        SessionMode,
        RowSetting(
            "Where it keeps its context: one session for the chat, for each thread, or for all chats.",
            "session",
            option="--session",
        ),
    ] = "shared"
    priority: Annotated[
        int,
        Ge(-HIGHEST_PRIORITY),
        Le(HIGHEST_PRIORITY),
        RowSetting("If several agents answer, the highest priority answers first.", "priority"),
    ] = 0
    while_busy: Annotated[
        WhileBusy,
        RowSetting(
            "What happens to messages that come while it works. collect: it answers them together, in its next turn; "
            "steer: it hears them in this turn, where its provider can; followup: each gets a turn of its own; "
            "interrupt: its turn ends, and begins again with them.",
            "while it works",
        ),
    ] = "collect"
    debounce_ms: Annotated[
        int | None,
        Ge(0),
        Le(LONGEST_DEBOUNCE_MS),
        RowSetting(
            "A turn begins when its sender has written nothing more for so long, so that three lines get one answer; "
            "at the latest 10 s after the first line.",
            "debounce",
            unset="1 s, or none with the providers echo and command",
        ),
    ] = None


SETTINGS = settings_of(Wiring)


class WiredChat(NamedTuple):
    """A chat and its wirings, highest priority first. *is_gathering*: pieces of an album wait there for the others."""

    chat: Chat
    wirings: list[Wiring]
    is_gathering: bool = False


# In ``find_chat``, a wiring has the debounce that it acts by.
_ACTING = listed(Wiring._fields, "w.").replace(
    "w.debounce_ms",
    f"coalesce(w.debounce_ms, iif(a.provider = 'echo' OR a.provider = 'command', 0, {_DEBOUNCE_MS}))",
)

# Sorted in Python: in SQL each message would build a temporary table for one or two rows.
FIND_CHAT = f"""
    SELECT {listed(Chat._fields, "c.")},
           EXISTS (SELECT 1
                     FROM albums a
                    WHERE a.channel = :channel AND a.platform_id = :platform_id AND a.status = 'gathering'),
           {_ACTING}
      FROM chats c
      LEFT JOIN wirings w ON w.chat_id = c.id
      LEFT JOIN agents a ON a.id = w.agent
     WHERE c.channel = :channel AND c.platform_id = :platform_id
"""
_CHAT_COLUMNS = len(Chat._fields)


def find_chat(conn: apsw.Connection, channel: str, platform_id: str) -> WiredChat | None:
    """The chat with this id of the platform, with its wirings, or None: there is no such chat."""
    found = rows(conn, FIND_CHAT, (channel, platform_id))
    if not found:
        return None
    chat = Chat.of(found[0][:_CHAT_COLUMNS])
    wired = [Wiring._make(row[_CHAT_COLUMNS + 1 :]) for row in found if row[_CHAT_COLUMNS + 1] is not None]
    return WiredChat(chat, sorted(wired, key=_rank), bool(found[0][_CHAT_COLUMNS]))


_SELECT = f"""
    SELECT {listed(Wiring._fields)}
      FROM wirings
"""
_PUT = f"""
    INSERT INTO wirings (chat_id, agent, {listed(SETTINGS)}, created_at)
    VALUES (:chat_id, :agent, {bound(SETTINGS)}, :now)
    ON CONFLICT (chat_id, agent) DO UPDATE
       SET {replaced(SETTINGS)}
    RETURNING {listed(Wiring._fields)}
"""


def of_chat(conn: apsw.Connection, chat_id: int) -> list[Wiring]:
    """The chat's wirings, highest priority first."""
    found = rows(conn, _SELECT + " WHERE chat_id = :chat_id", {"chat_id": chat_id})
    return sorted(map(Wiring._make, found), key=_rank)


def _rank(wiring: Wiring) -> tuple[int, int]:
    return -wiring.priority, wiring.id


def get(conn: apsw.Connection, chat_id: int, agent: str) -> Wiring | None:
    """The wiring of *agent* in the chat, or None."""
    found = rows(conn, _SELECT + " WHERE chat_id = :chat_id AND agent = :agent", {"chat_id": chat_id, "agent": agent})
    return Wiring(*found[0]) if found else None


def put(conn: apsw.Connection, chat_id: int, agent: str, settings: Mapping[str, Any], *, now_ms: int) -> Wiring:
    """Create or change the wiring; its id and ``created_at`` stay.

    Args:
        settings: all of them.
    """
    found = rows(conn, _PUT, {**settings, "chat_id": chat_id, "agent": agent, "now": now_ms})
    return Wiring(*found[0])


def delete(conn: apsw.Connection, chat_id: int, agent: str) -> bool:
    """Delete the wiring, and with it the destination. False: there is no such wiring."""
    conn.execute(
        "DELETE FROM wirings WHERE chat_id = :chat_id AND agent = :agent", {"chat_id": chat_id, "agent": agent}
    )
    return conn.changes() == 1
