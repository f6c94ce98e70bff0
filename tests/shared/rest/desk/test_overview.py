"""The overview: what needs a person, what recovers by itself, and that both say what the health says."""

import asyncio

import pytest

from functions import api
from shared.db.engine.connection import transaction
from shared.db.platforms import channel_outages, channel_pauses
from shared.db.platforms.channel_outages import ChannelOutage
from shared.db.roster import agent_pauses
from shared.db.spending import budgets
from tests.api_client import ask, get
from tests.support import NOW, answer, make_agent, put, take

pytestmark = pytest.mark.usefixtures("all_run")


def change(conn, sql, **values):
    with transaction(conn):
        conn.execute(sql, values)


def kill(conn, *rows, error="it fell"):
    for row in rows:
        sql = "UPDATE messages SET status = 'dead', failure = 'crashed', last_error = :error WHERE id = :id"
        change(conn, sql, error=error, id=row)


def read(serving):
    return get(serving, "/api/overview").json()


def titles(items):
    return [each["title"] for each in items]


def test_where_everything_moves_nothing_needs_anybody(serving, conn):
    put(conn)
    found = read(serving)
    assert (found["sentence"], found["more"]) == ("No problems.", "Nothing waits for a person.")
    assert (found["needsYou"], found["mendsItself"]) == ([], [])
    assert (found["numbers"]["waiting"], found["numbers"]["due"], found["books"]["accepted"]) == (1, 1, 1)


def test_a_budget_that_is_used_up_is_one_thing_with_the_command_that_helps(serving, conn):
    """The agent that waits for it was a second thing, with a button that helped nothing."""
    put(conn)
    with transaction(conn):
        budgets.put(conn, "assistant", "day", "tokens", 0, now_ms=NOW)
        agent_pauses.pause(conn, "assistant", "budget", "It is used up.", until=NOW + 9, now_ms=NOW)
    found = read(serving)
    (item,) = found["needsYou"]
    assert item["title"] == "The budget in tokens of assistant for this day is used up"
    assert item["why"] == (
        "So messages wait until it is over. To give more: emulator budgets set day --agent assistant --tokens NUMBER"
    )
    assert (item["link"], item["acts"], found["sentence"]) == (
        "#/queue/waiting?agent=assistant", [], "One thing needs you."
    )  # fmt: skip


def test_a_reason_ends_with_one_full_stop(serving, conn):
    put(conn)
    with transaction(conn):
        agent_pauses.pause(conn, "assistant", "auth", "Nobody is logged in.", now_ms=NOW)
    (item,) = read(serving)["needsYou"]
    assert item["why"] == "Nobody is logged in. Its messages wait in order, and no attempt is lost."


def test_a_button_that_takes_the_newest_alone_says_so(serving, conn):
    kill(conn, *(put(conn, chat=str(number)) for number in range(201)))
    (item,) = read(serving)["needsYou"]
    assert (item["count"], item["acts"][0]["label"], len(item["acts"][0]["paths"])) == (
        201,
        "Retry the newest 200",
        200,
    )


def test_a_button_that_sends_the_newest_alone_again_says_so(serving, conn):
    for number in range(201):
        answer(conn, chat=str(number))
    change(conn, "UPDATE responses SET status = 'dead', failure = 'error', last_error = 'no'")
    (item,) = read(serving)["needsYou"]
    assert (item["count"], item["acts"][0]["label"]) == (201, "Send the newest 200 again")


def test_dead_messages_have_a_button_that_retries_all_of_one_cause(serving, conn):
    kill(conn, put(conn), put(conn, chat="2"))
    (item,) = read(serving)["needsYou"]
    assert (item["title"], item["why"], item["count"]) == ("2 messages to assistant are dead", "It fell.", 2)
    (act,) = item["acts"]
    assert act["label"] == "Retry all 2"
    for path in act["paths"]:
        assert ask(serving, act["method"], path).json() == {"ok": True}
    assert read(serving)["needsYou"] == []


def test_an_agent_that_postroom_paused_needs_somebody_and_resumes_by_its_button(serving, conn):
    with transaction(conn):
        agent_pauses.pause(conn, "assistant", "auth", "the login has expired", until=NOW + 9, now_ms=NOW)
    found = read(serving)
    (item,) = found["needsYou"]
    assert found["sentence"] == "One thing needs you."
    assert (item["title"], item["until"], item["since"]) == ("Agent assistant is paused", NOW + 9, NOW)
    assert item["why"].startswith("The login has expired. Its messages wait in order")
    ask(serving, "POST", item["acts"][0]["paths"][0])
    assert read(serving)["needsYou"] == []


def test_an_agent_that_an_operator_paused_is_as_that_operator_wants_it(serving, conn):
    with transaction(conn):
        agent_pauses.pause_by_hand(conn, "assistant", "for the night", now_ms=NOW)
    assert read(serving)["needsYou"] == []


def test_messages_that_wait_behind_such_a_pause_need_that_operator(serving, conn):
    with transaction(conn):
        agent_pauses.pause_by_hand(conn, "assistant", "for the night", now_ms=NOW)
    put(conn)
    found = read(serving)
    (item,) = found["needsYou"]
    assert found["sentence"] == "One thing needs you."
    assert (item["title"], item["why"]) == (
        "Agent assistant is paused by hand",
        "For the night. 1 message waits in order, and no attempt is lost.",
    )
    ask(serving, "POST", item["acts"][0]["paths"][0])
    assert read(serving)["needsYou"] == []


def test_an_outage_mends_itself_and_says_when_it_is_asked_again(serving, conn):
    with transaction(conn):
        channel_outages.begin(
            conn, ChannelOutage("telegram", NOW, "unreachable", "no route to it", NOW + 60_000), now_ms=NOW
        )
    found = read(serving)
    assert found["needsYou"] == []
    (item,) = found["mendsItself"]
    assert (item["title"], item["until"]) == ("telegram can't send", NOW + 60_000)
    assert found["more"] == "One recovers by itself. Nothing needs you."


def test_what_is_tried_again_mends_itself(serving, conn):
    row = put(conn)
    change(
        conn,
        "UPDATE messages SET failure = 'crashed', last_error = 'it fell', process_after = :at WHERE id = :id",
        at=NOW + 60_000,
        id=row,
    )
    (item,) = read(serving)["mendsItself"]
    assert (item["title"], item["until"]) == ("1 message to assistant is tried again", NOW + 60_000)


def test_an_answer_of_which_nobody_knows_whether_it_arrived_has_a_mark_of_its_own(serving, conn):
    row = answer(conn)
    change(conn, "UPDATE responses SET status = 'dead', failure = 'outcome_unknown', last_error = 'no answer came'")
    (item,) = read(serving)["needsYou"]
    assert (item["mark"], item["title"]) == ("unknown", "1 answer could not be sent")
    assert item["acts"][0]["paths"] == [f"/api/responses/{row}/retry"]


def test_each_sentence_of_the_health_has_an_item(serving, conn):
    """Also what has no button of its own: a channel that is paused, a function that does not run."""
    make_agent(conn, "coder")
    kill(conn, put(conn))
    with transaction(conn):
        agent_pauses.pause(conn, "coder", "quota", "the plan is used up", now_ms=NOW)
        channel_pauses.pause(conn, "discord", "no token", check_at=NOW, now_ms=NOW)
    said = get(serving, "/api/health").json()
    assert len(read(serving)["needsYou"]) == len(said["problems"]) == 3


def test_a_book_that_does_not_balance_comes_first(serving, conn):
    lost, _ = put(conn), put(conn, chat="2")
    change(conn, "DELETE FROM messages WHERE id = :id", id=lost)
    kill(conn, put(conn, chat="3"))
    found = read(serving)
    assert titles(found["needsYou"])[0] == "The books don't balance: 1 accepted message has no row"
    assert found["sentence"] == "Two things need you."


def test_open_pages_share_one_reading(serving, conn):
    async def go():
        async with serving(api, "127.0.0.1:3777") as client:
            first = (await client.get("/api/overview")).json()
            put(conn)
            return first, (await client.get("/api/overview")).json()

    first, second = asyncio.run(go())
    assert first == second


def test_what_a_button_has_done_shows_at_once(serving, conn):
    kill(conn, put(conn))

    async def go():
        async with serving(api, "127.0.0.1:3777") as client:
            (item,) = (await client.get("/api/overview")).json()["needsYou"]
            (act,) = (each for each in item["acts"] if each["label"].startswith("Retry"))
            for path in act["paths"]:
                (await client.request(act["method"], path, json=act["body"])).raise_for_status()
            return (await client.get("/api/overview")).json()

    found = asyncio.run(go())
    assert (found["needsYou"], found["numbers"]["dead"]) == ([], 0)


def test_running_and_waiting_are_counted(serving, conn):
    put(conn, "runs")
    take(conn)
    put(conn, "waits")
    numbers = read(serving)["numbers"]
    assert (numbers["running"], numbers["waiting"], numbers["oldestAgent"]) == (1, 1, "assistant")
