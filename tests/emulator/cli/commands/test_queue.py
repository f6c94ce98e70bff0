"""``emulator queue``, ``messages``, ``responses`` and ``schedules``: what an operator types at three in the morning."""

from typing import Any

import pytest

from emulator.cli.client import find
from shared.db.engine.connection import transaction
from shared.db.queue import agent_messages
from shared.db.queue.agent_messages import AgentMessage
from shared.queue import turns
from shared.queue.turns import Failure, RetryPolicy
from tests.emulator.cli.commands.conftest import Postroom
from tests.support import NOW, answer, make_agent, make_chat, put, take, wire

ONCE = RetryPolicy(5, 1, 1, 0.0)


def kill_message(postroom: Postroom, name: str, text: str = "hello") -> str:
    """Make a dead message, whose program does not exist."""
    put(postroom.conn, text, given_id=name)
    claim = take(postroom.conn)
    assert claim is not None
    with transaction(postroom.conn):
        turns.fail(postroom.conn, claim, Failure("no such program: clade", retryable=False), ONCE, now_ms=NOW)
    return name


def kill_response(postroom: Postroom, text: str) -> str:
    """Make a dead response, which the platform refused; returns its number."""
    number = answer(postroom.conn, text, agent="assistant")
    postroom.conn.execute("UPDATE responses SET status = 'dead', last_error = 'chat not found' WHERE id = ?", (number,))
    return str(number)


def plan(postroom: Postroom, label: str, **more: Any) -> str:
    body = {"agentId": "assistant", "message": f"tidy {label}", "label": label, "cron": "0 9 * * *", **more}
    return str(find(None, postroom.url).post("schedules", body=body)["schedule"]["id"])


def statuses(postroom: Postroom, table: str) -> list[str]:
    return postroom.column(f"SELECT status FROM {table} ORDER BY id")


@pytest.fixture(autouse=True)
def empty(postroom: Postroom) -> None:
    """Empty the queue before each test."""
    for table in ("responses", "messages"):
        postroom.conn.execute(f"DELETE FROM {table}")


# -- messages


def test_a_dead_message_is_listed_with_its_error_and_shown_with_its_events(postroom: Postroom) -> None:
    assert postroom.run("messages", "list").stdout == "There is no dead message.\n"
    kill_message(postroom, "m_1", "why?\x1b[2J")
    head, line, _, way = postroom.run("messages", "list").stdout.splitlines()
    assert head.split()[:4] == ["message", "agent", "channel", "sender"]
    assert line.split()[:4] == ["m_1", "assistant", "telegram", "Ana"]
    assert (
        r"why?\x1b[2J" in line,
        line.endswith("no such program: clade. Retry it when the cause is gone, or discard it."),
    ) == (True, True)
    assert " messages retry MESSAGE" in way
    shown = postroom.run("messages", "show", "m_1").stdout
    assert [line.split(maxsplit=1)[1] for line in shown.splitlines() if line.startswith(("status", "error "))] == [
        "dead",
        "no such program: clade",
    ]
    assert "message_dead" in shown
    assert postroom.json("messages", "show", "m_1")["messageId"] == "m_1"


def test_a_dead_message_is_retried_or_discarded(postroom: Postroom) -> None:
    for name in ("m_2", "m_3"):
        kill_message(postroom, name)
    put(postroom.conn, "the newest")
    assert postroom.run("messages", "retry", "m_2").stdout == "Message m_2 is retried.\n"
    assert postroom.run("messages", "discard", "m_3").stdout == "Message m_3 is discarded.\n"
    assert statuses(postroom, "messages") == ["pending", "pending"]
    assert "m_2 is pending, not dead" in postroom.refused("messages", "retry", "m_2", code=1)
    assert "m_2 is pending, not dead" in postroom.refused("messages", "discard", "m_2", code=1)


def test_all_dead_messages_are_retried(postroom: Postroom) -> None:
    for name in ("m_4", "m_5"):
        kill_message(postroom, name)
    assert postroom.json("messages", "retry", "--all") == {"retried": ["m_4", "m_5"]}
    assert statuses(postroom, "messages") == ["pending", "pending"]
    assert postroom.run("messages", "retry", "--all").stdout == "0 messages are retried.\n"


COPY = """
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :many)
    INSERT INTO {table} ({columns}, {name})
    SELECT {columns}, printf('copy_%04d', i) FROM {table}, n WHERE status = 'dead'
"""


def copy(postroom: Postroom, table: str, name: str, columns: str) -> None:
    """Twelve hundred copies of the dead row: more than one response of the API lists."""
    postroom.conn.execute(COPY.format(table=table, name=name, columns=columns), {"many": 1200})


def test_retry_all_retries_every_message_the_oldest_first(postroom: Postroom) -> None:
    kill_message(postroom, "first")
    columns = "id_prefix, kind, channel, sender, message, agent, session_id, status, created_at, updated_at"
    copy(postroom, "messages", "message_id", columns)
    names = ["first", *(f"copy_{number:04}" for number in range(1, 1201))]
    assert postroom.json("messages", "retry", "--all") == {"retried": names}
    told = "SELECT message_id FROM events WHERE type = 'message_retried' ORDER BY id DESC LIMIT 1201"
    assert postroom.column(told)[::-1] == names


def test_retry_all_sends_every_response_the_oldest_first(postroom: Postroom) -> None:
    first = int(kill_response(postroom, "first"))
    copy(postroom, "responses", "message_id", "channel, sender, message, agent, status, created_at")
    assert postroom.json("responses", "retry", "--all") == {"retried": [*range(first, first + 1201)]}
    assert set(statuses(postroom, "responses")) == {"pending"}


def test_running_messages_are_listed_and_cancelled(postroom: Postroom) -> None:
    assert postroom.run("messages", "list", "--status", "processing").stdout == "There is no running message.\n"
    put(postroom.conn, "slow", given_id="m_6")
    take(postroom.conn)
    (_, line) = postroom.run("messages", "list", "--status", "processing").stdout.splitlines()
    assert line.split()[:4] == ["m_6", "assistant", "telegram", "Ana"]
    assert "Agent assistant is working on it now." in line
    assert postroom.run("messages", "cancel", "m_6").stdout == "Message m_6 is cancelled.\n"
    assert statuses(postroom, "messages") == ["cancelled"]


def test_pending_messages_are_listed_with_what_they_wait_for(postroom: Postroom) -> None:
    assert postroom.run("messages", "list", "--status", "pending").stdout == "There is no pending message.\n"
    put(postroom.conn, "tried", given_id="m_9")
    claim = take(postroom.conn)
    assert claim is not None
    with transaction(postroom.conn):
        turns.fail(postroom.conn, claim, Failure("the model is busy", retryable=True), ONCE, now_ms=NOW)
    put(postroom.conn, "fresh", agent="assistant", chat="200")
    _, second, first = postroom.run("messages", "list", "--status", "pending").stdout.splitlines()
    assert first.split()[0] == "m_9"
    assert " 1         An attempt failed, and it is tried again by itself: the model is busy.  " in first
    assert "It is due, and dispatch takes it within seconds." in second
    assert [each["attempts"] for each in postroom.json("messages", "list", "--status", "pending")] == [0, 1]


def test_completed_messages_are_listed_and_filtered(postroom: Postroom) -> None:
    for name, chat, sender in (("m_10", "100", "5"), ("m_11", "200", "6")):
        put(postroom.conn, given_id=name, chat=chat, sender_id=sender)
    postroom.conn.execute("UPDATE messages SET status = 'completed'")
    number = str(make_chat(postroom.conn, "200"))
    one = ["messages", "list", "--status", "completed", "--limit", "1"]
    head, line, _, older = postroom.run(*one).stdout.splitlines()
    assert (head.split()[-2:], line.split()[0]) == (["why", "until"], "m_11")
    assert "Agent assistant read it, and did not answer it separately." in line
    assert older.startswith("Older ones: --before ")
    for filters, found in (
        ([], ["m_11", "m_10"]),
        (["--chat", number], ["m_11"]),
        (["--person", "5", "--agent", "assistant"], ["m_10"]),
        (["--agent", "coder"], []),
        (["--reason", "no_answer", "--channel", "telegram"], ["m_11", "m_10"]),
        (["--reason", "answered"], []),
        (["--since", "2027-01-15T08:00:00Z"], ["m_11", "m_10"]),
        (["--until", "2027-01-15T08:00:00Z"], []),
        (["--since", "1m"], ["m_11", "m_10"]),
    ):
        listed = postroom.json("messages", "list", "--status", "completed", *filters)
        assert [each["id"] for each in listed] == found, filters
    assert postroom.run(*one, "--agent", "coder").stdout == "There is no completed message like this.\n"
    assert "--since 'soon' is no instant: write 2027-01-31T09:00, or 30m" in postroom.refused(
        *one, "--since", "soon", code=65
    )


def test_the_queue_is_shown_in_numbers(postroom: Postroom) -> None:
    assert "No message waits for an agent." in postroom.run("queue").stdout
    kill_message(postroom, "m_7")
    put(postroom.conn)
    lines = [line.split() for line in postroom.run("queue").stdout.splitlines()]
    assert lines[:3] == [["pending", "1"], ["running", "0"], ["dead", "1"]]
    assert ["assistant", "1", "0"] in lines
    assert lines[-1][:5] == ["To", "see", "the", "dead", "messages:"]


def test_search_finds_what_people_and_agents_wrote(postroom: Postroom) -> None:
    assert postroom.run("search", "lost keys").stdout == "Nothing was found.\n"
    with transaction(postroom.conn):
        said = (("user", "Where are my\nlost keys?"), ("assistant", "Lost keys are in the hall"))
        for role, text in said:
            agent_messages.append(postroom.conn, [AgentMessage("assistant", role, "telegram", "Ana", "m_8", text, NOW)])
    _, answered, asked = postroom.run("search", "LOST").stdout.splitlines()
    assert answered.endswith("assistant  assistant  m_8      Lost keys are in the hall")
    assert asked.endswith("assistant  Ana        m_8      Where are my lost keys?")
    assert "--before 2" in postroom.run("search", "lost", "--limit", "1").stdout
    postroom.refused("search", "x", code=65)


# -- responses


def test_dead_responses_are_listed_shown_retried_and_discarded(postroom: Postroom) -> None:
    assert postroom.run("responses", "list").stdout == "There is no dead response.\n"
    first, second, third = (kill_response(postroom, f"text {number}") for number in range(3))
    lines = postroom.run("responses", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == [third, second, first]
    assert lines[1].endswith("could not be sent: chat not found. Send it again, or discard it.")
    shown = postroom.run("responses", "show", second).stdout.splitlines()
    assert shown[-1].split(maxsplit=1) == ["text", "text 1"]
    assert postroom.run("responses", "retry", second).stdout == f"Response {second} is sent again.\n"
    assert postroom.run("responses", "discard", first).stdout == f"Response {first} is discarded.\n"
    assert statuses(postroom, "responses") == ["pending", "dead"]
    assert postroom.run("responses", "retry", "--all").stdout == "1 response is sent again.\n"
    assert statuses(postroom, "responses") == ["pending", "pending"]


def test_responses_that_wait_are_listed_with_why_and_filtered_as_dead_ones_are(postroom: Postroom) -> None:
    dead, waiting = kill_response(postroom, "gone"), answer(postroom.conn, "on its way", agent="assistant")
    _, line = postroom.run("responses", "list", "--status", "waiting").stdout.splitlines()
    assert line.split()[0] == str(waiting)
    assert f"Its answer, response {waiting}, goes out within seconds." in line
    for status, number in (("waiting", waiting), ("dead", int(dead))):
        for filters, found in (
            (["--agent", "assistant"], [number]),
            (["--agent", "coder"], []),
            (["--until", "2020-01-01T00:00"], []),
            (["--reason", "planned"], []),
        ):
            listed = postroom.json("responses", "list", "--status", status, *filters)
            assert [each["id"] for each in listed] == found, filters


# -- schedules


def test_schedules_are_listed_paused_resumed_and_cancelled(postroom: Postroom) -> None:
    assert postroom.run("schedules", "list").stdout.startswith("There is no schedule. To make one: ")
    daily = plan(postroom, "daily", timezone="Europe/Zurich")
    plan(postroom, "later", cron=None, runAt="2099-01-01T00:00:00Z")
    _, first, second = postroom.run("schedules", "list").stdout.splitlines()
    assert first.split()[:3] == [daily, "daily", "assistant"]
    assert "daily at 09:00 (Europe/Zurich)" in first
    assert " once " in second
    assert postroom.run("schedules", "pause", "daily").stdout == "Schedule daily is paused.\n"
    assert sorted(statuses(postroom, "messages")) == ["paused", "pending"]
    because = f"Its schedule {daily} is paused, until you resume it."
    assert postroom.run("schedules", "list").stdout.count(because) == 1
    assert because in postroom.run("schedules", "show", "daily").stdout
    assert "already paused" in postroom.refused("schedules", "pause", daily, code=1)
    assert ["next", "paused"] in [line.split() for line in postroom.run("schedules", "show", daily).stdout.splitlines()]
    assert postroom.run("schedules", "resume", daily).stdout.startswith(f"Schedule {daily} continues; next run 20")
    assert "is not paused" in postroom.refused("schedules", "resume", daily, code=1)
    assert postroom.run("schedules", "cancel", "daily").stdout == "Schedule daily is cancelled.\n"
    assert [each["label"] for each in postroom.json("schedules", "list", "--agent", "assistant")] == ["later"]


def test_a_daily_task_is_made_whose_answer_reaches_a_chat_or_a_person(postroom: Postroom) -> None:
    number = make_chat(postroom.conn, "4711")
    wire(postroom.conn, number)
    user = postroom.json("users", "add", "telegram", "4711", "--name", "Ana")["user"]["id"]
    for to in (["--chat", str(number)], ["--to", str(user)]):
        arguments = ["schedules", "add", "assistant", "tidy up", "--daily", "9:05", "--timezone", "Europe/Zurich", *to]
        said = postroom.run(*arguments).stdout
        made = said.split()[1].rstrip(":")
        assert said.startswith(
            f"Schedule {made}: agent assistant gets this text daily at 09:05 (Europe/Zurich); next run 20"
        )
        (session,) = set(postroom.json("schedules", "list", "--agent", "assistant")[0]["sessionId"].split())
        end = f"The answer goes to chat {number} (telegram 4711), from the session of its chat ({session}).\n"
        assert said.endswith(end)
        assert f"chat {number} (telegram 4711)" in postroom.run("schedules", "list").stdout
        assert f"chat {number} (telegram 4711)" in postroom.run("schedules", "show", made).stdout
        postroom.run("schedules", "cancel", made)
    assert set(postroom.column("SELECT chat_id FROM messages")) == {number}


def test_the_one_chat_of_an_agent_gets_the_answer_where_none_is_named(postroom: Postroom) -> None:
    make_agent(postroom.conn, "reporter")
    wire(postroom.conn, make_chat(postroom.conn, "4713"), "reporter")
    add = ["schedules", "add", "reporter", "say what is new", "--daily", "9:00", "--session", "own", "--label", "news"]
    said = postroom.run(*add).stdout
    assert "The answer goes to chat " in said
    assert "(telegram 4713), from a session of its own (session_" in said
    assert "a session of its own (session_" in postroom.run("schedules", "show", "news").stdout
    wire(postroom.conn, make_chat(postroom.conn, "4714"), "reporter")
    assert "who gets the answer?" in postroom.refused(*add, code=64)


def test_the_settings_of_a_schedule_are_options_and_can_change(postroom: Postroom) -> None:
    number = make_chat(postroom.conn, "4712")
    wire(postroom.conn, number)
    add = ["schedules", "add", "assistant", "tidy up", "--daily", "9:05", "--chat", str(number), "--label", "tidy"]
    postroom.run(*add, "--misfire", "skip", "--grace", "10m")
    shown = postroom.run("schedules", "show", "tidy").stdout
    assert ("missed runs       skip" in shown, "late by at most   600 s" in shown) == (True, True)
    said = postroom.run("schedules", "set", "tidy", "--grace", "", "--daily", "10:00", "--text", "tidy more").stdout
    assert "is changed: it runs daily at 10:00 (" in said
    assert postroom.run("schedules", "history", "tidy").stdout == "Schedule tidy has not run yet.\n"
    assert "(none yet)" in postroom.run("schedules", "show", "tidy").stdout
    found = postroom.json("schedules", "list", "--agent", "assistant")
    assert [(each["misfire"], each["graceMs"], each["message"]) for each in found] == [("skip", None, "tidy more")]


def test_an_answer_that_no_chat_gets_is_listed_so(postroom: Postroom) -> None:
    plan(postroom, "fetched")
    assert "a client that fetches it" in postroom.run("schedules", "list").stdout


REFUSED = {
    "no such message": (["messages", "show", "m_0"], 66, "m_0"),
    "no such message to retry": (["messages", "retry", "m_0"], 66, "m_0"),
    "no message named": (["messages", "retry"], 64, "name a message, or use --all"),
    "a message and all": (["messages", "retry", "m_0", "--all"], 64, "name a message, or use --all"),
    "no such message to cancel": (["messages", "cancel", "m_0"], 66, "m_0"),
    "no such response": (["responses", "show", "9999"], 66, "there is no dead response 9999"),
    "no such response to send": (["responses", "retry", "9999"], 66, "no response 9999"),
    "no response named": (["responses", "retry"], 64, "name a response, or use --all"),
    "a task without a time": (["schedules", "add", "assistant", "x", "--chat", "1"], 64, "when is it to run?"),
    "a task with two times": (
        ["schedules", "add", "assistant", "x", "--chat", "1", "--daily", "9:00", "--at", "2031-01-01"],
        64,
        "Use one of --daily, --cron and --at",
    ),
    "a time that is none": (
        ["schedules", "add", "assistant", "x", "--chat", "1", "--at", "tomorrow"],
        65,
        "--at 'tomorrow' is not an ISO 8601 instant",
    ),
    "a change of nothing": (["schedules", "set", "never"], 64, "what is to change?"),
    "a change of no schedule": (["schedules", "set", "never", "--grace", "1h"], 66, "there is no schedule 'never'"),
    "a grace that is no duration": (["schedules", "set", "never", "--grace", "soon"], 64, "--grace: "),
    "a task for nobody": (["schedules", "add", "nobody", "x", "--daily", "9:00"], 64, "who gets the answer?"),
    "no time of day": (["schedules", "add", "assistant", "x", "--chat", "1", "--daily", "25:00"], 65, "'25:00'"),
    "no such chat for an answer": (
        ["schedules", "add", "assistant", "x", "--chat", "9999", "--daily", "9:00"],
        66,
        "there is no chat 9999; ",
    ),
    "no such schedule": (["schedules", "show", "never"], 66, "there is no schedule 'never'"),
    "no such schedule that ran": (["schedules", "history", "never"], 66, "'never' not found"),
    "no such schedule to pause": (["schedules", "pause", "never"], 66, "there is no schedule 'never'"),
    "no such schedule to end": (["schedules", "cancel", "never"], 66, "'never' not found"),
}


@pytest.mark.parametrize(("arguments", "code", "sentence"), REFUSED.values(), ids=REFUSED)
def test_an_impossible_command_is_one_sentence_with_its_exit_code(
    postroom: Postroom, arguments: list[str], code: int, sentence: str
) -> None:
    assert sentence in postroom.refused(*arguments, code=code)
