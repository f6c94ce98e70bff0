"""What is not well now, by kind; ``test_alert_looks`` has those that a route is told of."""

from pathlib import Path
from typing import get_args

import pytest

from shared.conversation.alerts import standing
from shared.core.failures import ENDED_BY
from shared.core.settings import Settings
from shared.db.engine.connection import rows, transaction
from shared.db.platforms import channel_pauses
from shared.db.queue.responses import rows as rows_of_responses
from shared.db.replica.replica_report import ReplicaReport
from shared.db.replica.request_counts import RequestCounts
from shared.db.roster import agent_pauses
from shared.db.spending import budgets, usage
from shared.db.spending.usage import Tokens, TurnName
from shared.db.views import why, why_sentences
from tests.support import NOW, answer, make_chat, put

MINUTE, MB = 60_000, 1024 * 1024


def look(conn, db, now_ms=NOW):
    """The troubles by their keys, as kind, what, why and remedy."""
    found = standing.look(conn, Settings(db=db), now_ms=now_ms)
    return {each.key: (each.kind, each.what, each.why, each.remedy) for each in found.troubles}


def test_a_postroom_that_is_well_has_none(conn, db):
    assert look(conn, db) == {}


def test_a_budget_that_is_used_up(conn, db):
    with transaction(conn):
        budgets.put(conn, "assistant", "day", "tokens", 10, now_ms=NOW)
        usage.add(conn, TurnName("turn_1", "assistant", "session_1"), "m", "key", Tokens(9), None, now_ms=NOW)
    assert look(conn, db) == {}
    with transaction(conn):
        usage.add(conn, TurnName("turn_2", "assistant", "session_1"), "m", "key", Tokens(1), None, now_ms=NOW)
    assert look(conn, db) == {
        "budget assistant day tokens": (
            "money",
            "The budget in tokens of agent assistant for this day is used up",
            "What waits continues in 16 h, or when you give more.",
            "To give more: emulator budgets set day --agent assistant --tokens NUMBER.",
        )
    }


@pytest.mark.parametrize(("free", "what"), [(0, "is full"), (16 * MB, "is filling"), (100 * MB, None)])
def test_a_disk_that_fills(free, what):
    found = [each.what for each in standing.of_disk(Path("/data/p.db"), free, now_ms=NOW)]
    assert found == ([f"The disk of the database {what}"] if what else [])


def test_an_agent_that_postroom_paused_and_none_that_an_operator_did(conn, db):
    secret = "401: what the program wrote"
    with transaction(conn):
        agent_pauses.pause(conn, "assistant", "auth", secret, now_ms=NOW)
    (kind, what, why, _) = look(conn, db)["paused assistant"]
    assert (kind, what) == ("paused", "Agent assistant is paused, and its messages wait")
    assert why == "The login is refused, or has expired. They wait in order, and lose no attempt."
    with transaction(conn):
        rows(conn, "UPDATE agent_pauses SET paused_by = 'operator'")
    assert look(conn, db) == {}


def test_messages_of_a_paused_agent_are_not_stuck_as_well(conn, db):
    put(conn)
    with transaction(conn):
        agent_pauses.pause(conn, "assistant", "auth", "expired", now_ms=NOW)
    assert list(look(conn, db, NOW + 60 * MINUTE)) == ["paused assistant"]


def test_answers_of_a_refused_channel_are_not_stuck_as_well(conn, db):
    answer(conn)
    assert list(look(conn, db, NOW + 60 * MINUTE)) == ["stuck answers telegram"]
    with transaction(conn):
        channel_pauses.pause(conn, "telegram", "401", check_at=NOW, now_ms=NOW)
    assert list(look(conn, db, NOW + 60 * MINUTE)) == ["refused telegram"]


@pytest.mark.parametrize(
    ("code", "number"), [("error", 1), ("outcome_unknown", 1), ("not_fetched", 0), ("called_off", 0)]
)
def test_answers_that_could_not_be_sent_and_none_that_nobody_fetched(conn, db, code, number):
    answer(conn)
    with transaction(conn):
        rows(conn, "UPDATE responses SET status = 'dead', failure = :code", {"code": code})
    assert len(look(conn, db)) == number


@pytest.mark.parametrize("table", ["messages", "responses"])
def test_a_cause_is_told_in_words(conn, db, table):
    put(conn)
    answer(conn)
    for code in {"messages": ENDED_BY, "responses": get_args(rows_of_responses.FailureCode)}[table]:
        with transaction(conn):
            rows(conn, f"UPDATE {table} SET status = 'dead', failure = :code", {"code": code})
        (why,) = (why for key, (_, _, why, _) in look(conn, db).items() if key.endswith(f" {code}"))
        assert "not known" not in why
        assert why.endswith(". Nothing is tried again by itself.")


@pytest.mark.parametrize("status", ["pending", "processing", "completed", "dead", "cancelled"])
@pytest.mark.parametrize("text", ["last_error", "retrying_error", "asks_what", "pause"])
def test_no_text_of_people_or_programs_is_a_reason(conn, status, text):
    facts = why.message(conn, put(conn), now_ms=NOW)
    response = why.response(conn, answer(conn), now_ms=NOW)._replace(status="dead", last_error="4711", pause="4711")
    facts = facts._replace(**{text: "4711"}, status=status, lease=NOW + MINUTE, asks="ask_1", responses=[response])
    assert "4711" not in why_sentences.of_message(standing.without_texts(facts), now_ms=NOW).reason


REPORT = {
    "at": NOW, "url": "s3://bucket/db", "prefix": "epoch_2", "epoch": "epoch_1", "has_full_copy": True,
    "holder": "host", "renewed_at": NOW, "until": NOW + MINUTE, "behind_since": None, "verify_every_ms": 0,
    "requests": RequestCounts(), "counting_since": NOW - 60 * MINUTE, "survey": None, "sizes": {},
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, None),
        ({"behind_since": NOW - 29_000}, None),
        ({"behind_since": NOW - 31_000}, "Commits have not reached the bucket for 31 s"),
        ({"at": NOW - 91_000}, "The supervisor of replication has reported nothing for 91 s"),
        ({"has_full_copy": False}, "The present prefix has no full copy yet"),
        ({"has_full_copy": False, "counting_since": NOW - MINUTE}, None),
    ],
)
def test_a_replica_that_is_behind(conn, db, change, says):
    ReplicaReport(**REPORT | change).write(db)
    found = look(conn, db)
    assert list(found) == (["behind"] if says else [])
    assert not says or found["behind"][2].startswith(says)


_DEAD = """
    INSERT INTO responses (message_id, channel, sender, message, platform_id, created_at, chat_id, status, failure)
    SELECT 'm' || value, 'telegram', 'A', 't', '1', 1, 1, 'dead', :failure FROM json_each(:numbers)
"""


def test_with_a_thousand_dead_rows_none_of_that_kind_is_known_to_be_over(conn, db):
    make_chat(conn)
    with transaction(conn):
        rows(conn, _DEAD, {"failure": None, "numbers": str(list(range(999)))})
    assert standing.look(conn, Settings(db=db), now_ms=NOW).unknown == ()
    with transaction(conn):
        rows(conn, _DEAD, {"failure": None, "numbers": "[7777]"})
    found = standing.look(conn, Settings(db=db), now_ms=NOW)
    assert (found.unknown, found.troubles[0].what) == ({"dead"}, "1,000 answers or more could not be sent")


@pytest.mark.parametrize("code", ["not_fetched", "called_off"])
def test_a_thousand_answers_that_need_nobody_hide_no_other(conn, db, code):
    make_chat(conn)
    with transaction(conn):
        rows(conn, _DEAD, {"failure": "error", "numbers": "[7777]"})
        rows(conn, _DEAD, {"failure": code, "numbers": str(list(range(1000)))})
    found = standing.look(conn, Settings(db=db), now_ms=NOW)
    assert (found.unknown, [each.key for each in found.troubles]) == ((), ["unsent None error"])
