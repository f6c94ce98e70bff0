"""40 000 messages wait for one agent."""

import os
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from emulator.proving.child import until
from emulator.proving.host import Post
from shared.db.engine.connection import open_connection, transaction
from shared.db.queue import messages
from tests.e2e.crash import invariants
from tests.e2e.crash.conftest import Make
from tests.support import enqueue_all, make_session

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.crash]

WAITING = 40_000


def pile_up(post: Post, chats: list[str], count: int) -> None:
    """Enqueue *count* messages, the chats in turn."""
    conn = open_connection(post.db)
    try:
        places = [(chat, *make_session(conn, "many", chat)) for chat in chats]
        for begin in range(0, count, 5000):
            with transaction(conn):
                news = (_message(number, *places[number % len(places)]) for number in range(begin, begin + 5000))
                enqueue_all(conn, islice(news, count - begin), now_ms=1_800_000_000_000 + begin)
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


def start(post: Post) -> float:
    """The processor seconds of dispatch until its first turn, without other processes."""
    post["dispatch"].start()
    until("the first turn", lambda: invariants.journal(post))
    fields = Path(f"/proc/{post['dispatch'].pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("sessions", [1, 4000])
def test_a_backlog_of_40_000_starts_at_once_and_runs_in_order(sessions: int, make_post: Make) -> None:
    chats = [str(1000 + number) for number in range(sessions)]
    empty, full = (make_post(functions=["dispatch"], ticks=False) for _ in range(2))
    for post, count in ((empty, 1), (full, WAITING)):
        post.prepare({"many": 8}, {})
        pile_up(post, chats[:count], count)
    alone_s = start(empty)
    empty.stop()

    took_s = start(full)
    until("a hundred messages to be in turns", lambda: sum(len(line["ids"]) for line in begun(full)) > 100)
    full.stop("dispatch")

    print(f"a turn after {took_s:.2f} s of a processor, {alone_s:.2f} with one message")
    assert took_s - alone_s < 1
    invariants.check_so_far(full)


def begun(post: Post) -> list[dict[str, Any]]:
    """The turns that have begun."""
    return [line for line in invariants.journal(post) if line["what"] == "start"]
