"""How many pages of the WAL each step writes: exact, so that no index or column makes every message dearer unseen.

A page is counted each time a transaction writes it. Which b-trees they belong to is told by ``dbstat``.
"""

import collections
import struct
from pathlib import Path

import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, messages
from shared.queue import turns
from shared.queue.turns import TurnReply
from tests.support import LEASE, NOW, enqueue_all, make_session

MESSAGES = 200
ENQUEUED = ("messages", "messages_open", "messages_message_id")
_HEADER, _FRAME = 32, 24 + 4096


class Wal:
    """The frames of a database's WAL, which nothing checkpoints meanwhile."""

    def __init__(self, conn, db):
        self._conn, self._path = conn, Path(f"{db}-wal")
        rows(conn, "PRAGMA wal_autocheckpoint = 0")
        conn.set_wal_hook(self._committed)
        self._frames = 0

    def _committed(self, _conn, _name, frames):
        self._frames = frames
        return 0

    def pages(self, work):
        """Pages written per message by *work*, for each b-tree; those that only grew the file are left out."""
        before = self._frames
        work()
        data = self._path.read_bytes()
        numbers = [struct.unpack_from(">I", data, _HEADER + frame * _FRAME)[0] for frame in range(before, self._frames)]
        names = dict(rows(self._conn, "SELECT pageno, name FROM dbstat"))
        counted = collections.Counter(names.get(number, "given up") for number in numbers)
        return {name: round(count / MESSAGES, 2) for name, count in sorted(counted.items()) if count >= MESSAGES * 0.04}


@pytest.fixture
def wal(conn, db):
    return Wal(conn, db)


def make_new(conn):
    """The message of everybody here, in one session."""
    chat, session = make_session(conn)
    return messages.NewMessage(
        id_prefix="telegram",
        channel="telegram",
        chat_id=chat,
        platform_id="100",
        sender="Ana Ruiz",
        sender_id="5000000001",
        message="Hello, can you summarise yesterday?",
        content='{"context": {"chat_type": "private"}}',
        agent="assistant",
        session_id=session,
    )


def enqueue(conn, *, per_transaction=1, event_keys=True):
    """In one session."""
    new = make_new(conn)

    def store(number):
        event_key = str(730_000_000 + number) if event_keys else None
        messages.enqueue(conn, new._replace(platform_message_id=str(number), event_key=event_key), now_ms=NOW)

    for first in range(0, MESSAGES, per_transaction):
        with transaction(conn):
            for number in range(first, first + per_transaction):
                store(number)


def claim(conn, limit):
    _, session = make_session(conn)
    with transaction(conn):
        return claims.claim(conn, "assistant", session, token="turn_x9Y8z7W6", now_ms=NOW, lease_ms=LEASE, limit=limit)


def settle(conn, claimed, *, now_ms):
    with transaction(conn):
        said = [TurnReply(f"You said: {message.message}", message) for message in claimed.asked]
        turns.settle(conn, claimed, said, str(now_ms), now_ms=now_ms)


def check(measured, total, *names):
    """These b-trees and no other, and so many pages within a few per cent: what is more is a split or a first row.

    How many of them are whose is told only roughly: a page that one b-tree gave up may be another's by the time of
    looking.
    """
    print({"total": round(sum(measured.values()), 2), **measured})
    assert measured.keys() - {"sqlite_schema"} == set(names)  # the first page, when the file grows
    assert sum(measured.values()) == pytest.approx(total, abs=0.15)


def test_enqueue_one_by_one(conn, wal):
    """3.1: the row, its place among the open ones, and its id.

    A random id is found, and held unique, by an index of all ids, so it costs a page of its own where it is alone.
    ``benchmarks.raw``, the least that keeps the promise, writes 3.3.
    """
    check(wal.pages(lambda: enqueue(conn, event_keys=False)), 3.1, *ENQUEUED)


def test_a_platform_event_costs_a_page_more(conn, wal):
    """4.1: its key, so that the same event is never stored twice."""
    check(wal.pages(lambda: enqueue(conn)), 4.15, *ENQUEUED, "messages_event")


def test_announcing_costs_next_to_nothing_in_the_company_of_others(conn, wal):
    """0.05: the events of two hundred arrivals, and where the next time begins."""

    def announce():
        with transaction(conn):
            assert messages.announce(conn) == MESSAGES

    enqueue(conn)
    assert sum(wal.pages(announce).values()) <= 0.1


def test_ids_of_messages_that_come_together_share_their_page(conn, wal):
    """0.1 to 0.2 of the index of ids, in a table that has many: ids without a common beginning write 0.9."""
    earlier = [make_new(conn)] * 20_000
    with transaction(conn):
        enqueue_all(conn, earlier, now_ms=NOW)
    measured = wal.pages(lambda: enqueue(conn, event_keys=False, per_transaction=20))
    assert measured["messages_message_id"] <= 0.4  # where pages split in a new burst


def test_enqueue_a_hundred_at_once(conn, wal):
    """0.15: what group commit makes of it."""
    assert sum(wal.pages(lambda: enqueue(conn, per_transaction=100)).values()) <= 0.2


def test_claim_and_complete_one_by_one(conn, wal):
    """5: the row and its place among the open ones, twice, is 4; the claim's event is one more."""

    def work():
        for _ in range(MESSAGES):
            claimed = claim(conn, 1)
            with transaction(conn):
                claims.complete(conn, claimed, now_ms=NOW)

    enqueue(conn)
    check(wal.pages(work), 5.1, "messages", "messages_open", "events")


def test_claim_and_settle_one_by_one(conn, wal):
    """12.6: beyond claim and complete, the response with its two indexes, two lines of history with their index, the
    session, and three events in the two transactions.
    """

    def work():
        for number in range(MESSAGES):
            settle(conn, claim(conn, 1), now_ms=NOW + number)

    enqueue(conn)
    names = ("messages", "messages_open", "events", "responses", "responses_open")
    check(
        wal.pages(work),
        12.6,
        *names,
        *("responses_of_message", "agent_messages", "agent_messages_of_agent", "sessions"),
    )


def test_claim_and_complete_in_batches_of_twenty(conn, wal):
    """0.38: rows that are marked as taken grow, and their pages split; the claim's event is 0.1 more."""

    def work():
        for _ in range(MESSAGES // 20):
            claimed = claim(conn, 20)
            with transaction(conn):
                claims.complete(conn, claimed, now_ms=NOW)

    enqueue(conn)
    measured = wal.pages(work)
    assert measured["messages"] + measured["messages_open"] <= 0.39
    assert measured["events"] <= 0.11


def test_claim_and_settle_in_batches_of_twenty(conn, wal):
    """1.2 with everything; the messages themselves, claimed and completed, are 0.38 of it."""

    def work():
        for number in range(MESSAGES // 20):
            settle(conn, claim(conn, 20), now_ms=NOW + number)

    enqueue(conn)
    measured = wal.pages(work)
    assert sum(measured.values()) <= 1.3
    assert measured["messages"] + measured["messages_open"] <= 0.39
