"""Section 4: an agent's search in a year of what was said, and the index behind it."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import apsw

from shared.db.engine.connection import open_connection, transaction
from shared.db.queue import sessions
from shared.db.roster import chats
from shared.db.views import history_index, history_search
from shared.db.views.history_index import HistoryIndexer
from shared.db.views.history_search import HistoryQuestion
from shared.roster.new_database import prepare_database
from tests.benchmarks.harness.measure import Line, Scale, Spread, at_most, percentile, watched

_NOW_MS = 1_800_000_000_000
_DAY_MS = 24 * 60 * 60 * 1000
_YEAR_MS = 365 * _DAY_MS
_CHATS = 200
_WORDS = 20_000  # that people use, some often and most rarely
_ASKED = (
    HistoryQuestion("the"),
    HistoryQuestion("word7000"),
    HistoryQuestion("word3 word900"),
    HistoryQuestion("word1234*"),
    HistoryQuestion("nothing"),
    HistoryQuestion("", _NOW_MS - 200 * _DAY_MS, _NOW_MS - 199 * _DAY_MS),
    HistoryQuestion("the", _NOW_MS - 360 * _DAY_MS, _NOW_MS - 200 * _DAY_MS),
    HistoryQuestion("the", None, _NOW_MS - 360 * _DAY_MS),
)


def recall(scale: Scale) -> Iterator[Line]:
    """200,000 lines in 200 chats; from a direct chat and from a group, by words and by time."""
    count = scale.few(200_000, 10_000)
    db = scale.place("recall") / "postroom.db"
    prepare_database(db)
    conn = open_connection(db)
    rows_of = _fill(conn, count)
    begun, cpu = time.perf_counter(), time.process_time()
    HistoryIndexer(db).work(conn, longest_s=3600.0)
    took, cpu = time.perf_counter() - begun, time.process_time() - cpu
    times_ms = [_ask(conn, db, row, asked) for row in rows_of for asked in _ASKED for _ in range(scale.rounds)]
    conn.close()
    size_mb = history_index.path_of(db).stat().st_size / 1e6
    yield at_most(
        f"an agent's search in a year of {count:,} lines, p99",
        Spread.of([percentile(times_ms, 0.99)]),
        50,
        "ms",
        beside=f"p50 {percentile(times_ms, 0.5):.1f} ms; the index {size_mb:.0f} MB, beside a database of "
        f"{db.stat().st_size / 1e6:.0f} MB",
    )
    yield watched(
        f"the index of {count:,} lines, built in slices",
        Spread.of([cpu]),
        "s of CPU",
        is_less_better=True,
        beside=f"{took:.1f} s; it holds no lock of the database",
    )


def _fill(conn: apsw.Connection, count: int) -> list[int]:
    """Lines of a year; the rows of a group's session and of a direct chat's."""
    drawn = random.Random(1)
    made = []
    with transaction(conn):
        for number in range(_CHATS):
            chat = chats.ensure(conn, "telegram", str(number), is_group=number % 2 == 0, now_ms=_NOW_MS)
            made.append(sessions.ensure(conn, "assistant", chat.id, None, now_ms=_NOW_MS))
    with transaction(conn):
        conn.executemany(
            """
            INSERT INTO agent_messages (agent_id, role, channel, sender, message_id, content, created_at, session_id)
            VALUES ('assistant', 'user', 'telegram', 'Ana', 'm', ?, ?, ?)
            """,
            (
                (_text(drawn), _NOW_MS - _YEAR_MS + number * _YEAR_MS // count, drawn.choice(made))
                for number in range(count)
            ),
        )
    return made[:2]


def _text(drawn: random.Random) -> str:
    words = (min(_WORDS, int(drawn.expovariate(1 / 600))) for _ in range(20))
    return "the " + " ".join(f"word{each}" for each in words)


def _ask(conn: apsw.Connection, db: Path, row: int, asked: HistoryQuestion) -> float:
    begun = time.perf_counter()
    history_search.search(conn, db, sessions.known(conn, row), asked, sees_groups=True)
    return (time.perf_counter() - begun) * 1000


LINES = (recall,)
