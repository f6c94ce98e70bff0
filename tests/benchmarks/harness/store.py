"""The verbs of our store, called as the functions call them."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import apsw

from shared.db.engine.connection import open_connection, transaction
from shared.db.queue import claims, messages, ready_sessions, sessions
from shared.db.queue.claims import Claim
from shared.db.queue.messages import NewMessage
from shared.db.roster import agents, chats
from shared.db.roster.agents import Agent
from shared.queue.turns import TurnReply, settle
from shared.roster import wirings
from shared.roster.new_database import prepare_database

NOW = 1_760_000_000_000
LEASE_MS = 30_000
TEXT = "Could you look at the report that came in this morning and tell me what changed since last week? " * 3


class Place(NamedTuple):
    """The destination of a message."""

    agent: str
    chat: int
    session: int


class Store:
    """One connection to a migrated file.

    Args:
        places: the destinations of messages; without them the default agent, from *chat_count* chats.
        prefix: the start of the event keys.
        clock: the real one where a function works on the same file.
    """

    def __init__(
        self,
        path: Path,
        synchronous: str,
        *,
        places: Sequence[Place] = (),
        chat_count: int = 1,
        prefix: str = "7100200300",
        clock: Callable[[], int] = lambda: NOW,
    ) -> None:
        prepare_database(path)
        self.path = path
        self.conn = open_connection(path)
        self.conn.execute(f"PRAGMA synchronous = {synchronous}")
        self._prefix = prefix
        self._clock = clock
        self._ids = itertools.count()
        self.places = places or self._default(chat_count)

    def _default(self, count: int) -> Sequence[Place]:
        with transaction(self.conn):
            agent = agents.default(self.conn)
            if agent is None:
                raise RuntimeError("a migrated database has a default agent")
            return [_place(self.conn, agent.id, 42 + number) for number in range(count)]

    def message(self, *, key: bool = False, place: int = 0, text: str = TEXT) -> NewMessage:
        """The next message."""
        number = next(self._ids)
        to = self.places[place]
        return NewMessage(
            id_prefix="telegram",
            channel="telegram",
            chat_id=to.chat,
            platform_id="42",
            platform_message_id=str(number),
            event_key=f"{self._prefix}:{number:012d}" if key else None,
            sender="Ana",
            sender_id="42",
            message=text,
            agent=to.agent,
            session_id=to.session,
        )

    def insert(
        self, *, key: bool = False, place: int = 0, text: str = TEXT, conn: apsw.Connection | None = None
    ) -> None:
        """Enqueue one message, in the caller's transaction."""
        messages.enqueue(conn or self.conn, self.message(key=key, place=place, text=text), now_ms=self._clock())

    def put(self, conn: apsw.Connection) -> None:
        """Enqueue one message, as work for a Writer."""
        self.insert(conn=conn)

    def insert_one_ungated(self) -> int:
        """One message in a transaction that waits by SQLite's busy handler, without the write gate."""
        self.conn.execute("BEGIN IMMEDIATE")
        self.insert()
        self.conn.execute("COMMIT")
        return 1

    def insert_one(self, *, key: bool = False, place: int = 0, text: str = TEXT) -> int:
        """One message in its own transaction."""
        with transaction(self.conn):
            self.insert(key=key, place=place, text=text)
        return 1

    def insert_many(self, count: int, *, place: int = 0) -> int:
        """*count* messages in one transaction."""
        with transaction(self.conn):
            for _ in range(count):
                self.insert(place=place)
        return count

    def put_many(self, texts: Sequence[tuple[int, str]]) -> None:
        """Enqueue these messages, each with the number of its place, in one transaction."""
        with transaction(self.conn):
            for place, text in texts:
                self.insert(place=place, text=text)

    def fill(self, count: int, *, place: int = 0) -> None:
        """*count* pending messages whose arrival is already an event."""
        for first in range(0, count, 1000):
            self.insert_many(min(1000, count - first), place=place)
        while self.announce():
            pass

    def announce(self) -> int:
        """Write the events of arrival; how many."""
        with transaction(self.conn):
            return messages.announce(self.conn)

    def claim(
        self, limit: int, *, place: Place | None = None, token: str = "turn_0123456789ab", announce: bool = True
    ) -> Claim | None:
        """Claim the session's turn; the same transaction writes the events of arrival, as in dispatch."""
        to = place or self.places[0]
        with transaction(self.conn):
            if announce:
                messages.announce(self.conn)
            return claims.claim(
                self.conn, to.agent, to.session, token=token, now_ms=self._clock(), lease_ms=LEASE_MS, limit=limit
            )

    def settle(self, claim: Claim) -> int:
        """Answer each message of the batch; how many."""
        with transaction(self.conn):
            settle(
                self.conn,
                claim,
                [TurnReply(message.message, message) for message in claim.batch],
                None,
                now_ms=self._clock(),
            )
        return len(claim.batch)

    def ready(self) -> list[Place]:
        """The sessions that are ready."""
        return [Place(each.agent, 0, each.session_id) for each in ready_sessions.find(self.conn, now_ms=self._clock())]

    def complete_only(self, limit: int) -> int:
        """Claim, then complete without an answer; how many messages."""
        claim = self.claim(limit, announce=False)
        if claim is None:
            return 0
        with transaction(self.conn):
            claims.complete(self.conn, claim, now_ms=self._clock())
        return len(claim.batch)

    def turn(self, limit: int) -> int:
        """Claim, then settle; how many messages."""
        claim = self.claim(limit)
        return 0 if claim is None else self.settle(claim)


def wire(path: Path, pairs: Iterable[tuple[Agent, int]]) -> list[Place]:
    """Wire each Telegram chat to its agent, which is made if it is new; the places of their messages."""
    conn = open_connection(path)
    try:
        with transaction(conn):
            return [_wired(conn, agent, chat) for agent, chat in pairs]
    finally:
        conn.close()


def _wired(conn: apsw.Connection, agent: Agent, chat: int) -> Place:
    if agents.get(conn, agent.id) is None:
        agents.save(conn, agent, now_ms=NOW)
    place = _place(conn, agent.id, chat)
    wirings.connect(conn, place.chat, agent.id, now_ms=NOW)
    return place


def _place(conn: apsw.Connection, agent: str, chat: int) -> Place:
    found = chats.ensure(conn, "telegram", str(chat), is_group=False, name="Ana", sender_policy="public", now_ms=NOW)
    return Place(agent, found.id, sessions.ensure(conn, agent, found.id, None, now_ms=NOW))


def echo_agent(name: str) -> Agent:
    """An agent that repeats what it receives."""
    return Agent(name, name)


def command_agent(name: str, *command: str) -> Agent:
    """An agent that is a program."""
    return Agent(name, name, "command", config={"command": list(command)})
