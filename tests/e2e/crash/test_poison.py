"""A message that kills its agent, or the dispatch that runs it."""

import contextlib
import random
import threading
from collections.abc import Iterator

import pytest

from emulator.proving.child import until
from emulator.proving.host import Post
from emulator.proving.platform import Platform, lines
from shared.queue.turns import APOLOGY
from tests.e2e.crash import invariants
from tests.e2e.crash.conftest import Make

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.crash]

ATTEMPTS = 5
LOSSES = 20  # of dispatch in a row while one message runs, before it ends


@contextlib.contextmanager
def killed_by_poison(post: Post) -> Iterator[None]:
    """Kill dispatch whenever an agent has met the poison: its program can't see dispatch itself."""
    over = threading.Event()

    def watch() -> None:
        known = 0
        while not over.wait(0.01):
            journal = post.record / "turns"
            met = journal.read_bytes().count(b'"act": "poison"') if journal.exists() else 0
            if met > known:
                known = met
                post["dispatch"].kill()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


@pytest.mark.parametrize("word", ["kill", "poison"])
def test_a_message_that_kills_its_agent_or_dispatch_ends_dead_and_harms_no_neighbour(
    word: str, make_post: Make, platform: Platform, dice: random.Random
) -> None:
    post = make_post(environment={"POSTROOM_MAX_ATTEMPTS": str(ATTEMPTS)})
    chats = [str(chat) for chat in range(100, 112)]
    post.prepare({"many": 30}, dict.fromkeys(chats, "many"))
    post.start()
    port = post.port("ingest")
    texts = lines(chats[1:], 6, lambda dice: f"ok:{dice.uniform(0.1, 0.9):.2f}", dice)
    texts["100"] = [f"c100 0000 | {word}", "c100 0001 | ok", "c100 0002 | ok"]

    with killed_by_poison(post):
        with platform.people(port, texts, pace_s=0.02) as crowd:
            until("every message to be accepted", lambda: crowd.is_done, 60)
        post.settle(150)

    invariants.check(post)
    ended = post.query("SELECT message, status, retry_count, last_error FROM messages WHERE status <> 'completed'")
    attempts = {"kill": ATTEMPTS, "poison": 1}[word]
    assert [row[:3] for row in ended] == [(f"c100 0000 | {word}", "dead", attempts)]
    assert {"kill": "signal 9", "poison": "ran the turn ended"}[word] in ended[0][3]
    assert [send.text for send in platform.taken if send.chat == "100"] == [APOLOGY, "re c100 0001", "re c100 0002"]
    if word == "poison":
        assert 1 + LOSSES <= post["dispatch"].starts <= 2 + LOSSES
        ((most,),) = post.query("SELECT max(retry_count) FROM messages WHERE status = 'completed'")
        assert most == 0
