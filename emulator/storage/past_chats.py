"""The chats of a copy of the past, written into the fake platforms, so that the chat page shows what people saw then.

Only what was said is carried over: the texts of people, and the responses that had arrived. Messages that ended more
than a day before that instant had been deleted.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import apsw

from emulator.base.fakes import PLATFORMS
from emulator.platforms.fakes import module_of
from emulator.platforms.store import FakePerson, PlatformStore
from shared.db.engine.connection import open_connection, rows, savepoint

_DONE = "past.written"
_MOST = 20_000  # of the newest messages

_SAID = """
    SELECT channel, platform_id, name, is_group, said_id, sender_id, sender, text, at
      FROM (SELECT c.channel, c.platform_id, c.name, c.is_group, m.platform_message_id AS said_id, m.sender_id,
                   m.sender, m.message AS text, m.created_at AS at
              FROM messages m
              JOIN chats c ON c.id = m.chat_id
             WHERE (m.kind = 'chat' OR m.kind = 'chat-sdk') AND m.from_agent IS NULL AND m.sender_id IS NOT NULL
             UNION ALL
            SELECT c.channel, c.platform_id, c.name, c.is_group, r.platform_message_id, NULL, NULL, r.message,
                   r.acked_at
              FROM responses r
              JOIN chats c ON c.id = r.chat_id
             WHERE r.status = 'acked' AND r.message <> '')
     WHERE channel IN (SELECT value FROM json_each(:platforms))
     ORDER BY at DESC
     LIMIT :limit
"""


@dataclass(frozen=True, slots=True)
class SaidThen:
    """One text of a chat. *sender_id*, *sender*: the person; None: our bot."""

    channel: str
    platform_id: str
    name: str | None
    is_group: int
    said_id: str | None
    sender_id: str | None
    sender: str | None
    text: str
    at: int


def write(platforms: Path, database: Path) -> int:
    """Write what was said in *database* into the chats of the fake platforms, once; returns how many messages."""
    store = PlatformStore(platforms)
    with closing(store):
        if store.get(_DONE) is not None:
            return 0
        with savepoint(store.conn):
            count = sum(_write(store, each) for each in _said(database))
            store.put(_DONE, str(count))
    return count


def _said(database: Path) -> Iterator[SaidThen]:
    """What was said, oldest first."""
    conn: apsw.Connection = open_connection(database, readonly=True)
    with closing(conn):
        found = rows(conn, _SAID, {"platforms": json.dumps(PLATFORMS), "limit": _MOST})
    return (SaidThen(*row) for row in reversed(found))


def _write(store: PlatformStore, said: SaidThen) -> bool:
    """Write one message; False: it is there, because several agents had it."""
    fake = module_of(said.channel)
    then = fake.chat_then(said.platform_id, said.name or said.sender or "", is_group=bool(said.is_group))
    store.add_chat(then)
    chat = store.chat(said.channel, said.platform_id) or then
    if said.sender_id is not None:
        store.add_person(said.channel, FakePerson(said.sender_id, said.sender or said.sender_id, said.sender_id))
        store.join(chat, said.sender_id)
    count = store.next_message_id(chat)
    message_id = said.said_id or f"past-{count}"
    if store.message(chat, message_id) is not None:
        return False
    store.add_message(
        chat,
        message_id,
        author=said.sender_id or fake.bot_id(store),
        is_bot=said.sender_id is None,
        text=said.text,
        detail={"entities": [], "state": "past"},  # no webhook of it is known here
        now_ms=said.at,
    )
    return True
