"""The queue in process, against the raw limit and the peers from PyPI, all in one run."""

import itertools
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from shared.db import agents, chats, messages, sessions
from shared.db.connection import open_connection, transaction
from shared.db.migrate import migrate
from shared.turns import Said, settle
from tests.benchmarks.measure import Rate, rates
from tests.benchmarks.raw import Raw

NOW = 1_760_000_000_000
TEXT = "Could you look at the report that came in this morning and tell me what changed since last week? " * 3


class Ours:
    """The store's own verbs, as the functions call them; the connection's settings are the Writer's."""

    def __init__(self, path: Path, synchronous: str) -> None:
        migrate(path)
        self.conn = open_connection(path)
        self.conn.execute(f"PRAGMA synchronous = {synchronous}")
        with transaction(self.conn):
            agent = agents.default(self.conn)
            chat = chats.ensure(self.conn, "telegram", "42", is_group=False, now_ms=NOW)
            self.session = sessions.ensure(self.conn, agent.id, chat.id, None, now_ms=NOW)
            self.chat = chat.id
        self._ids = itertools.count()

    def insert(self, *, key: bool = False) -> None:
        """One message, in the caller's transaction."""
        number = next(self._ids)
        messages.enqueue(
            self.conn,
            messages.NewMessage(
                message_id=f"telegram_{number:08d}",
                channel="telegram",
                chat_id=self.chat,
                platform_id="42",
                event_key=f"7100200300:{number:012d}" if key else None,
                sender="Ana",
                sender_id="42",
                message=TEXT,
                agent="assistant",
                session_id=self.session,
            ),
            now_ms=NOW,
        )

    def claim_and_settle(self, limit: int) -> int:
        """One turn that answers each message of its batch. How many."""
        with transaction(self.conn):
            claim = messages.claim(
                self.conn,
                self.session,
                token="t",
                now_ms=NOW,
                lease_ms=30_000,
                limit=limit,
            )
        if claim is None:
            return 0
        with transaction(self.conn):
            settle(self.conn, claim, [Said(message.message, message) for message in claim.batch], None, now_ms=NOW)
        return len(claim.batch)


def _one(begin: Callable[[], None]) -> Callable[[], int]:
    def step() -> int:
        begin()
        return 1

    return step


def _ours_one(ours: Ours, *, key: bool) -> None:
    with transaction(ours.conn):
        ours.insert(key=key)


def _ours_many(ours: Ours) -> int:
    with transaction(ours.conn):
        for _ in range(100):
            ours.insert()
    return 100


def _raw_many(raw: Raw) -> int:
    with raw.conn:
        for _ in range(100):
            raw.insert(TEXT, NOW)
    return 100


def _peers(folder: Path) -> dict[str, Callable[[], int]]:
    """What installs from PyPI; each with its own default durability, which is less than FULL."""
    import huey
    import litequeue
    import persistqueue

    lite = litequeue.LiteQueue(str(folder / "litequeue.db"))
    hue = huey.SqliteHuey(filename=str(folder / "huey.db"))
    persist = persistqueue.SQLiteAckQueue(str(folder / "persist"), auto_commit=True)
    return {
        "litequeue": _one(lambda: lite.put(TEXT)),
        "huey": _one(lambda: hue.storage.enqueue(TEXT.encode())),
        "persist-queue": _one(lambda: persist.put(TEXT)),
    }


def _level(folder: Path, synchronous: str) -> Iterator[tuple[str, dict[str, Rate]]]:
    """(what, rates) for each line at one level of durability."""
    raw, ours = Raw(folder / "raw.db", synchronous), Ours(folder / "ours.db", synchronous)
    one: dict[str, Callable[[], int]] = {
        "raw": _one(lambda: raw.insert(TEXT, NOW)),
        "postroom": _one(lambda: _ours_one(ours, key=False)),
        "postroom, event key": _one(lambda: _ours_one(ours, key=True)),
    }
    if synchronous == "NORMAL":
        one |= _peers(folder)
    yield "enqueue, one per transaction", rates(one, reference="raw")
    many = {"raw": lambda: _raw_many(raw), "postroom": lambda: _ours_many(ours)}
    yield "enqueue, 100 per transaction", rates(many, reference="raw")
    for size in (1, 20):
        turn = {
            "raw": partial(raw.claim_and_settle, size, NOW),
            "postroom": partial(ours.claim_and_settle, size),
        }
        yield f"claim + settle, batch of {size} (response, history, events)", rates(turn, reference="raw")


def run() -> Iterator[tuple[str, str, dict[str, Rate]]]:
    """(what, synchronous, rates) for each line of the table."""
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for synchronous in ("NORMAL", "FULL"):
            folder = Path(name) / synchronous
            folder.mkdir()
            for what, found in _level(folder, synchronous):
                yield what, synchronous, found
