"""What stands before the model: a script, and news. A run that asks no model costs nothing, and says why."""

import os
import sys

import pytest

from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.engine.connection import rows, transaction
from shared.db.queue.messages import NewMessage
from shared.db.queue.schedules.settings import ScheduleSettings
from shared.db.views.schedules import runs
from shared.queue import series
from shared.queue.series import When
from shared.turns.run.gate.task_gate import NO_NEWS
from tests.functions.dispatch.test_dispatch import step
from tests.support import column, make_agent, make_session, put

HOUR = 3_600_000
COUNTS = """
import json, sys
asked = json.loads(sys.stdin.readline())
print("I got", len(asked["messages"]), "message:", asked["messages"][-1]["text"])
"""


@pytest.fixture(autouse=True)
def counter(conn):
    make_agent(conn, "counter", provider="command", config={"command": [sys.executable, "-c", COUNTS]})


def plan(conn, *, due_ms=None, recurrence="0 * * * *", **settings):
    """A task of the agent, every hour, and due since a minute."""
    now_ms = clock.now_ms()
    chat, session = make_session(conn, agent="counter")
    new = NewMessage(
        "task", "telegram", chat, "100", sender="Ana", message="read the mail", agent="counter", kind="task"
    )
    when = When(due_ms or now_ms - 60_000, recurrence, settings=ScheduleSettings(**settings))
    with transaction(conn):
        return series.plan_message(
            conn, new._replace(agent="counter", session_id=session), when, now_ms=now_ms - 2 * HOUR
        ).series_id


def told(conn, task):
    (view, *_) = runs.of_series(conn, task, now_ms=clock.now_ms(), limit=9)
    return view


def again(conn):
    """Let the next occurrence be due now."""
    rows(conn, "UPDATE messages SET process_after = :now WHERE status = 'pending'", {"now": clock.now_ms()})


def answers(conn):
    return column(conn, "SELECT message FROM responses ORDER BY id")


def test_a_script_that_finds_nothing_asks_no_model(conn):
    task = plan(conn, script='echo looked; echo \'{"wakeAgent": false, "reason": "no letter"}\'')
    step()
    assert answers(conn) == []
    assert column(conn, "SELECT count(*) FROM agent_messages") == [0]
    view = told(conn, task)
    assert (view["outcome"], view["requests"], view["tokens"]) == ("not_run", 0, 0)
    assert view["reason"] == "its script said that there is nothing to do: no letter"
    assert column(conn, "SELECT status FROM messages ORDER BY id") == ["completed", "pending"]


def test_what_a_script_writes_reaches_the_agent(conn):
    task = plan(conn, script="echo 'two <letters>'")
    step()
    assert answers(conn) == ["I got 1 message: read the mail\n\nThe script of this task wrote:\ntwo <letters>"]
    assert told(conn, task)["outcome"] == "answered"
    assert column(conn, "SELECT content FROM agent_messages WHERE role = 'user'") == ["read the mail"]


def test_a_script_that_fails_is_an_attempt_with_its_reason(conn):
    task = plan(conn, script="echo no mail server >&2; exit 3")
    step()
    assert answers(conn) == []
    assert rows(conn, "SELECT status, retry_count, failure FROM messages") == [("pending", 1, "crashed")]
    assert "its script failed: the program ended with code 3: no mail server" in told(conn, task)["words"]


def test_what_waits_beside_such_a_task_stays_for_a_turn_that_reads_it(conn):
    put(conn, "seen in the chat", agent="counter", trigger=False)
    plan(conn, script="echo '{\"wakeAgent\": false}'")
    put(conn, "a question", agent="counter")
    step(3)
    assert [answer.split(":")[0] for answer in answers(conn)] == ["I got 2 message"]
    assert column(conn, "SELECT DISTINCT status FROM messages WHERE kind <> 'task'") == ["completed"]


# -- news


def test_without_news_nothing_is_asked_and_nothing_is_spent(conn):
    task = plan(conn, wake="news")
    for _ in range(3):
        step()
        view = told(conn, task)
        assert (view["outcome"], view["reason"], view["requests"], view["tokens"]) == ("not_run", NO_NEWS, 0, 0)
        again(conn)
    assert answers(conn) == []
    assert column(conn, "SELECT count(*) FROM usage") == [0]
    assert column(conn, "SELECT count(*) FROM agent_messages") == [0]


def test_what_was_said_since_wakes_the_agent_once(conn):
    task = plan(conn, wake="news")
    step()
    put(conn, "hello", agent="counter", now_ms=clock.now_ms())
    step()
    again(conn)
    step()
    assert answers(conn) == ["I got 1 message: hello", "I got 1 message: read the mail"]
    assert told(conn, task)["outcome"] == "answered"
    again(conn)
    step()
    assert told(conn, task)["reason"] == NO_NEWS


def test_context_that_came_wakes_the_agent_which_reads_it(conn):
    plan(conn, wake="news")
    step()
    put(conn, "seen in the chat", agent="counter", trigger=False, now_ms=clock.now_ms())
    again(conn)
    step()
    assert answers(conn)[0].startswith("I got 2 message")


def test_a_changed_list_of_the_agent_is_news(conn):
    task = plan(conn, wake="news")
    step()
    folder = Settings.load().agents_dir / "counter"
    (folder / "HEARTBEAT.md").write_text("- look after the garden\n")
    later_s = clock.now_ms() / 1000 + 60
    os.utime(folder / "HEARTBEAT.md", (later_s, later_s))
    again(conn)
    step()
    assert told(conn, task)["outcome"] == "answered"


def test_a_run_that_its_script_spared_has_looked_at_no_news(conn):
    task = plan(conn, wake="news", script="test -e ready || echo '{\"wakeAgent\": false}'")
    put(conn, "hello", agent="counter", now_ms=clock.now_ms())
    step(2)
    again(conn)
    step()
    assert told(conn, task)["reason"] == "its script said that there is nothing to do"
    again(conn)
    step()
    assert told(conn, task)["reason"] == "its script said that there is nothing to do"


def test_a_late_run_of_a_schedule_that_skips_is_left_out_by_dispatch(conn):
    yearly = "0 0 1 1 *"  # of every hour, one may just have begun
    task = plan(conn, due_ms=clock.now_ms() - 3 * HOUR, recurrence=yearly, misfire="skip")
    step()
    assert answers(conn) == []
    assert told(conn, task)["outcome"] == "missed"
