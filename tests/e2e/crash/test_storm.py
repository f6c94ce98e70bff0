"""Providers that fail in every way, in many sessions at once, and a platform that fails too."""

import random
from collections import Counter

import pytest

from emulator.proving.child import until
from emulator.proving.host import Post
from emulator.proving.platform import BROKEN, BUSY, LOST, OK, REFUSED, SLOW, TAKEN_BROKEN, TAKEN_LOST, Platform, lines
from tests.e2e.crash import invariants
from tests.e2e.crash.conftest import Make

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.crash]

BASE_MS, CAP_MS, ATTEMPTS, TIMEOUT_MS = 100, 800, 4, 4000
SHORTEST_WAIT_MS = 1000
COUNTED = {
    "fail": "planned",
    "limit": "planned wait",
    "kill": "was ended by signal 9",
    "exit": "ended with code 3",
    "silent": "the agent said nothing",
    "garbage": "ended with code 1",
    "hang": "the agent gave no result within 4 s",
}


def troubled(dice: random.Random) -> str:
    """The plan of one message: its turns succeed at last, or never."""
    if dice.random() < 0.6:
        return f"ok:{dice.uniform(0, 0.03):.3f}"
    words = ["fail", "fail:0.05", "limit:50", "limit:1000", "kill", "exit:3", "silent", "garbage"]
    plan = dice.choices(words, k=dice.choice([1, 1, 1, 2, 2, 3, 6]))
    plan += dice.choices([["ok"], ["dead"], ["hang", "ok"]], [0.8, 0.1, 0.1])[0]
    return " ".join(plan)


def verdicts(post: Post) -> tuple[dict[str, tuple[str, int, str]], list[str]]:
    """The expected state of each row by the turns that ran; and the turns that came too early."""
    state: dict[str, tuple[str, int, str]] = {}
    failures: Counter[str] = Counter()
    not_before: dict[str, int] = {}
    early: list[str] = []
    begun: dict[str, str] = {}
    together: set[str] = set()  # the turns of several messages
    for line in invariants.journal(post):
        if line["what"] == "start" and len(line["texts"]) > 1:
            together.add(line["run"])
        for id_ in line["ids"]:
            if line["what"] == "start":
                if line["at_ns"] < not_before.get(id_, 0):
                    early.append(f"{id_} was tried again {(not_before[id_] - line['at_ns']) / 1e6:.0f} ms too early")
                begun[id_] = line["texts"][0]
                failures[id_] += 1  # until it ends in another way; a turn that hangs writes no second line
                state[id_] = ("dead" if failures[id_] >= ATTEMPTS else "pending", failures[id_], COUNTED["hang"])
                continue
            act, done = line["act"], failures[id_] - 1
            wait_ms = 0.0
            if act == "ok":
                state[id_] = ("completed", done, "")
            elif act == "dead" and line["run"] in together:  # which of them is to blame is seen when each runs alone
                failures[id_] = done
                state[id_] = ("pending", done, "planned end")
            elif act == "dead":
                state[id_] = ("dead", done + 1, "planned end")
            elif act == "limit" and int(line["number"]) >= SHORTEST_WAIT_MS:  # a shorter one is an attempt like another
                failures[id_], wait_ms = done, int(line["number"])
                state[id_] = ("pending", done, "planned wait")
            else:
                state[id_] = ("dead" if done + 1 >= ATTEMPTS else "pending", done + 1, COUNTED[act])
                wait_ms = min(CAP_MS, BASE_MS * 2**done) / 2
            not_before[id_] = line["at_ns"] + int(wait_ms * 1e6)
    return state, early


def test_each_message_ends_by_the_rules_whatever_providers_and_the_platform_do(
    make_post: Make, platform: Platform, dice: random.Random, scale: float
) -> None:
    moods = [SLOW, BUSY, BROKEN, TAKEN_BROKEN, LOST, TAKEN_LOST, REFUSED]
    faults = {f"re c{chat} {number:04}": dice.choice(moods) for chat in range(100, 124) for number in range(0, 1000, 9)}
    platform.plan = lambda text, attempt: (faults.get(text, OK), 0.3) if attempt == 1 else (OK, 0.0)
    post = make_post(
        environment={
            "POSTROOM_RETRY_BASE_MS": str(BASE_MS),
            "POSTROOM_RETRY_CAP_MS": str(CAP_MS),
            "POSTROOM_MAX_ATTEMPTS": str(ATTEMPTS),
            "POSTROOM_TURN_TIMEOUT_MS": str(TIMEOUT_MS),
        }
    )
    chats = [str(chat) for chat in range(100, 124)]
    agents = {"alone": 1, "pair": 2, "many": 8}
    post.prepare(agents, {chat: dice.choices(list(agents), [1, 3, 8])[0] for chat in chats})
    post.start()

    with platform.people(post.port("ingest"), lines(chats, int(10 * scale), troubled, dice)) as crowd:
        until("every message to be accepted", lambda: crowd.is_done, 60 * scale)
    post.settle(90 * scale)

    invariants.check(post)
    expected, early = verdicts(post)
    assert not early
    found = post.query(f"SELECT message_id, status, retry_count, ifnull(last_error, '') {invariants.WRITTEN}")
    assert len(found) == len(expected)
    for id_, status, retry_count, error in found:
        assert (status, retry_count) == expected[id_][:2], id_
        assert expected[id_][2] in error
    ends = Counter(status for _, status, _, _ in found)
    assert ends["completed"] > 100 * scale
    assert ends["dead"] > 0
