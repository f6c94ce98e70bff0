"""40 000 messages wait for one agent."""

import json
import time
from itertools import islice

import pytest

from shared.db import messages
from shared.db.connection import open_connection, transaction
from tests.e2e.crash import invariants
from tests.e2e.crash.conftest import Make
from tests.e2e.crash.harness import Post, until
from tests.support import make_session

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.crash]

WAITING = 40_000
LOOK_S = 5.0


def pile_up(post: Post, chats: list[str], count: int) -> None:
    """*count* messages, the chats' in turn."""
    conn = open_connection(post.db)
    try:
        places = [(chat, *make_session(conn, "many", chat)) for chat in chats]
        for begin in range(0, count, 5000):
            with transaction(conn):
                news = (_message(number, *places[number % len(places)]) for number in range(begin, begin + 5000))
                messages.enqueue_many(conn, islice(news, count - begin), now_ms=1_800_000_000_000 + begin)
    finally:
        conn.close()


def _message(number: int, chat: str, chat_id: int, session: int) -> messages.NewMessage:
    return messages.NewMessage(
        id_prefix="telegram",
        channel="telegram",
        chat_id=chat_id,
        platform_id=chat,
        sender="Ana",
        message=f"c{chat} {number:05} | ok",
        agent="many",
        session_id=session,
    )


def start(post: Post) -> tuple[float, float]:
    """Seconds until dispatch listens, and until its first turn has begun."""
    begun = time.monotonic_ns()
    post["dispatch"].start()
    until("dispatch to listen", post["dispatch"].is_up, 20)
    ready_s = (time.monotonic_ns() - begun) / 1e9
    first = until("the first turn", lambda: invariants.journal(post), 20)[0]
    return ready_s, (first["at_ns"] - begun) / 1e9


@pytest.mark.parametrize("sessions", [1, 4000])
def test_a_backlog_of_40_000_is_begun_at_once_and_taken_in_order(sessions: int, make_post: Make) -> None:
    chats = [str(1000 + number) for number in range(sessions)]
    empty, full = (make_post(functions=["dispatch"], ticks=False) for _ in range(2))
    for post, count in ((empty, 1), (full, WAITING)):
        post.prepare({"many": 8}, {})
        pile_up(post, chats[:count], count)
    empty_ready_s, empty_turn_s = start(empty)
    empty.stop()

    ready_s, turn_s = start(full)
    time.sleep(LOOK_S)
    full.stop("dispatch")

    print(f"ready after {ready_s:.2f} s ({empty_ready_s:.2f} with one), a turn after {turn_s:.2f} ({empty_turn_s:.2f})")
    assert ready_s - empty_ready_s < 1
    assert turn_s - empty_turn_s < 1
    invariants.check_so_far(full)
    began = [line for line in invariants.journal(full) if line["what"] == "start"]
    done = sum(len(line["ids"]) for line in began)
    print(f"{len(began)} turns over {done} messages in {LOOK_S:g} s: {json.dumps(began[-1]['texts'][:1])}")
    assert done > 100
