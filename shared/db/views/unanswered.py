"""The last message of one chat that waits, was dropped, or is dead; or of which the answer waits or could not be sent.

It is read while a message is stored, so each statement reads an index, or the newest few rows.
"""

from typing import NamedTuple

import apsw

from shared.db.engine.connection import rows, scalar
from shared.db.roster.chats import Chat
from shared.db.views import why, why_sentences
from shared.db.views.why import DROPPED_FACTS, DroppedFacts, Of, Place
from shared.db.views.why_sentences import Why

_NO_LOSS = "('command_done', 'pairing_done', 'pairing_used', 'decided_already')"


class Unanswered(NamedTuple):
    """A message and why it stands where it stands.

    *id*: of the message, or ``dropped_`` or ``held_`` and the row. *agent*: whose message it is, where it is one's.
    """

    id: str
    sender: str
    created_at: int
    why: Why
    agent: str | None = None
    channel: str | None = None
    platform_id: str | None = None


# What is planned for later waits for nothing else.
WAITING = """
    SELECT max(m.id)
      FROM sessions s
      JOIN messages m INDEXED BY messages_open
        ON m.agent = s.agent AND m.session_id = s.id AND m.trigger = 1
           AND (m.status = 'pending' OR m.status = 'processing') AND m.status = 'pending'
           AND (m.process_after IS NULL OR m.failure IS NOT NULL OR m.process_after <= :now)
     WHERE s.chat_id = :chat
"""
DEAD = """
    SELECT id
      FROM (SELECT id, channel, platform_id FROM messages WHERE status = 'dead' ORDER BY id DESC LIMIT 500)
     WHERE channel = :channel AND platform_id = :platform_id
     ORDER BY id DESC
     LIMIT 1
"""
TO_SEND = """
    SELECT max(in_reply_to)
      FROM responses
     WHERE channel = :channel AND chat_id = :chat AND (status = 'pending' OR status = 'delivering')
"""
# Without the answers that need nobody, of which there may be very many: those that no client fetched.
UNSENT = """
    SELECT max(in_reply_to)
      FROM (SELECT in_reply_to, chat_id
              FROM responses INDEXED BY responses_unsent
             WHERE status = 'dead' AND coalesce(failure, '') NOT IN ('not_fetched', 'called_off')
             ORDER BY id DESC
             LIMIT 500)
     WHERE chat_id = :chat
"""
DROPPED = f"""
    SELECT id
      FROM (SELECT id, channel, platform_id, reason FROM dropped ORDER BY id DESC LIMIT 2000)
     WHERE channel = :channel AND platform_id = :platform_id AND reason NOT IN {_NO_LOSS}
     ORDER BY id DESC
     LIMIT 1
"""  # noqa: S608 - our own words
DROPPED_ROW = f"{DROPPED_FACTS} WHERE d.id = :row"


def latest(conn: apsw.Connection, chat: Chat, *, now_ms: int) -> Unanswered | None:
    """The newest of the chat, among the newest 500 dead messages and answers and 2000 dropped events of all chats."""
    of = {"chat": chat.id, "channel": chat.channel, "platform_id": chat.platform_id, "now": now_ms}
    found = {
        name: scalar(conn, sql, {name: value for name, value in of.items() if f":{name}" in sql})
        for name, sql in (("w", WAITING), ("d", DEAD), ("s", TO_SEND), ("u", UNSENT), ("x", DROPPED))
    }
    ids = {found[name] for name in ("w", "d", "s", "u")} - {None}
    here = [_of_message(conn, row, now_ms=now_ms) for row in ids]
    here += [_of_dropped(conn, found["x"])] if found["x"] is not None else []
    here += _held(conn, Of(channel=chat.channel, platform_id=chat.platform_id))
    return max((each for each in here if each is not None), key=lambda each: each.created_at, default=None)


def find(conn: apsw.Connection, ref: str, *, now_ms: int) -> Unanswered | None:
    """One by its id: of a message, ``dropped_`` and a row, ``held_`` and a row, an approval."""
    kind, _, number = ref.partition("_")
    if kind == "dropped" and number.isdecimal() and len(number) < 19:
        return _of_dropped(conn, int(number))
    row: int | None = scalar(conn, "SELECT id FROM messages WHERE message_id = :ref", {"ref": ref})
    if row is not None:
        return _of_message(conn, row, now_ms=now_ms)
    return next(iter(_held(conn, Of(ref))), None)


def _of_message(conn: apsw.Connection, row: int, *, now_ms: int) -> Unanswered | None:
    facts = why.message(conn, row, now_ms=now_ms)
    if facts is None:
        return None
    because, place = why_sentences.of_message(facts, now_ms=now_ms), facts.place
    return Unanswered(
        facts.message_id, place.sender, facts.created_at, because, facts.agent, place.channel, place.platform_id
    )


def _of_dropped(conn: apsw.Connection, row: int) -> Unanswered | None:
    for id_, *place_, reason, detail, created_at in rows(conn, DROPPED_ROW, {"row": row}):
        place = Place(*place_)
        facts = DroppedFacts(id_, place, reason, detail, created_at)
        because = why_sentences.of_dropped(facts)
        return Unanswered(
            f"dropped_{row}", place.sender, facts.created_at, because, None, place.channel, place.platform_id
        )
    return None


def _held(conn: apsw.Connection, of: Of) -> list[Unanswered]:
    return [
        Unanswered(
            f"held_{facts.id}", facts.place.sender, facts.created_at, why_sentences.of_held(facts), facts.agent,
            facts.place.channel, facts.place.platform_id,
        )
        for facts in why.held(conn, of, limit=1)
    ]  # fmt: skip
