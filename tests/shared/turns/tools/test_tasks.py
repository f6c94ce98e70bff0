import pytest

from shared.agents.programs import containment
from shared.db.engine.connection import transaction
from shared.db.queue import claims, sessions
from shared.db.queue.responses import NewResponse
from shared.queue import series, session_reset
from tests.shared.turns.tools.calls import running
from tests.support import NOW, column, dump, make_agent, put, row, take

MORNING = "0 9 * * *"
TASKS = ("update_task", "pause_task", "resume_task", "cancel_task")


def planned(turn, **given):
    """Plan a task; its id."""
    answer = turn.say("schedule_task", **{"prompt": "water the plants", "cron": MORNING, **given})
    return answer.split()[2].rstrip(":")


def named(tool, task):
    return {"task": task, "prompt": "x"} if tool == "update_task" else {"task": task}


def test_a_task_is_a_message_of_this_conversation_later(conn, db):
    with running(conn, db, thread="7") as turn:
        answer = turn.say("schedule_task", prompt="water the plants", cron=MORNING, timezone="Europe/Rome")
    stored = row(conn, "messages")
    assert answer == (
        f"Planned as {stored['series_id']}: '0 9 * * *' in Europe/Rome, next 2027-01-16T09:00+01:00. "
        "You get the prompt then, in this conversation."
    )
    names = ("kind", "message", "agent", "channel", "chat_id", "thread_id", "session_id", "status")
    asked = turn.claim.batch[0]
    assert [stored[name] for name in names] == [
        *("task", "water the plants", "assistant", "telegram", asked.chat_id, "7", asked.session_id, "pending")
    ]


def test_a_task_for_once_is_on_the_wall_clock_of_its_zone(conn, db):
    with running(conn, db) as turn:
        planned(turn, cron=None, run_at="2027-02-01T09:00:00", timezone="Europe/Rome")
    assert row(conn, "messages")["process_after"] == 1_801_468_800_000


def test_what_is_private_stays_private_later(conn, db):
    with running(conn, db, content={"context": {"receiver_user_id": "5", "token": "sealed"}}) as turn:
        planned(turn)
    assert row(conn, "messages")["content"] == '{"context": {"receiver_user_id": "5"}}'


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"cron": None}, "give either 'run_at', for once, or 'cron', for a task that repeats"),
        ({"run_at": "2027-02-01T09:00"}, "give either 'run_at', for once, or 'cron', for a task that repeats"),
        ({"cron": "every morning"}, "cron expression 'every morning' can't be used"),
        ({"cron": "0 9 30 2 *"}, "cron expression '0 9 30 2 *' can't be used"),
        ({"timezone": "Mars/Olympus"}, "time zone 'Mars/Olympus'"),
        ({"timezone": "../../etc/passwd"}, "time zone '../../etc/passwd'"),
        ({"cron": None, "run_at": "tomorrow"}, "run_at 'tomorrow' is not an ISO 8601 instant"),
        ({"cron": None, "run_at": "2020-01-01T00:00:00Z"}, "run_at '2020-01-01T00:00:00Z' is in the past"),
        ({"cron": None, "run_at": "9999-12-31T23:59:59-14:00"}, "run_at '9999-12-31T23:59:59-14:00' is"),
        ({"prompt": ""}, "argument 'prompt'"),
        ({"prompt": "x" * 20_001}, "argument 'prompt'"),
    ],
)
def test_a_task_that_could_never_run_is_refused_and_not_stored(conn, db, given, sentence):
    with running(conn, db) as turn:
        before = dump(conn)
        refused = turn.refusal("schedule_task", **{"prompt": "x", "cron": MORNING, **given})
        assert sentence in refused
        assert dump(conn) == before


def test_a_conversation_has_so_many_tasks_and_no_more(conn, db):
    with running(conn, db) as turn:
        for number in range(50):
            planned(turn, prompt=f"task {number}")
        refused = turn.refusal("schedule_task", prompt="one more", cron=MORNING)
    assert refused.startswith("50 tasks of this conversation are planned already")


def test_tasks_are_listed_changed_paused_resumed_and_cancelled(conn, db):
    with running(conn, db) as turn:
        assert turn.say("list_tasks") == "No task is planned in this conversation."
        task = planned(turn)
        assert turn.say("list_tasks") == f"{task}: '0 9 * * *' in UTC, next 2027-01-15T09:00+00:00: water the plants"
        turn.say("update_task", task=task, prompt="feed the cat", cron="30 7 * * *")
        assert "'30 7 * * *' in UTC, next 2027-01-16T07:30+00:00: feed the cat" in turn.say("list_tasks")
        turn.say("pause_task", task=task)
        assert f"{task}: paused; " in turn.say("list_tasks")
        turn.say("resume_task", task=task)
        assert "paused" not in turn.say("list_tasks")
        turn.say("cancel_task", task=task)
        assert turn.say("list_tasks") == "No task is planned in this conversation."
    assert column(conn, "SELECT status FROM messages WHERE series_id IS NOT NULL") == ["cancelled"]


def test_pause_and_resume_in_turn_are_calls_of_their_own_without_ids_too(conn, db):
    """A repeated 'pause' after a 'resume' must pause: nothing reports what it did not do."""
    with running(conn, db) as turn:
        task = planned(turn)
        first = turn.say("pause_task", task=task)
        turn.say("resume_task", task=task)
        assert turn.say("pause_task", task=task) == first
        assert turn.say("pause_task", task=task) == first
    assert series.get(conn, task).status == "paused"


def test_an_update_that_changes_nothing_is_refused(conn, db):
    with running(conn, db) as turn:
        task = planned(turn)
        assert turn.refusal("update_task", task=task).startswith("give at least one of")


@pytest.mark.parametrize("tool", TASKS)
def test_a_task_of_another_conversation_reads_as_one_that_is_not_there(conn, db, tool):
    with running(conn, db) as turn, running(conn, db, chat="300") as other:
        theirs = planned(other)
        before = dump(conn)
        found = turn.refusal(tool, **named(tool, theirs))
        nobody = turn.refusal(tool, **named(tool, "series_00000000"))
        assert found.replace(theirs, "X") == nobody.replace("series_00000000", "X")
        assert turn.say("list_tasks") == "No task is planned in this conversation."
        assert dump(conn) == before


@pytest.mark.parametrize("tool", TASKS)
def test_a_recurring_response_of_an_operator_is_no_task(conn, db, tool):
    with running(conn, db) as turn:
        with transaction(conn):
            asked = turn.claim.batch[0]
            new = NewResponse("proactive_1", "telegram", "Ana", "drink", chat_id=asked.chat_id, agent="assistant")
            plan = series.plan_response(conn, new, series.When(recurrence=MORNING), now_ms=NOW)
        assert "this conversation has no task" in turn.refusal(tool, **named(tool, plan.series_id))


def test_after_a_reset_the_conversation_still_has_its_tasks(conn, db):
    with running(conn, db) as turn:
        task = planned(turn)
        with transaction(conn):
            session_reset.reset(conn, turn.claim.session_id, now_ms=NOW)
            claims.release(conn, turn.claim, now_ms=NOW)
        put(conn, "again")
        later = type(turn)(turn.process, db, take(conn, token="turn_b"))
        assert sessions.get(conn, later.claim.session_id).status == "active"
        assert task in later.say("list_tasks")


# -- settings


def test_an_agent_sets_what_becomes_of_missed_runs_and_when_it_is_asked(conn, db):
    with running(conn, db) as turn:
        task = planned(turn, misfire="skip", grace_ms=60_000, wake="news")
        assert series.get(conn, task).settings == ("skip", 60_000, "", "news")
        turn.say("update_task", task=task, grace_ms=None, misfire="coalesce")
        assert series.get(conn, task).settings == ("coalesce", None, "", "news")


def test_a_task_may_have_a_session_of_its_own_and_stays_a_task_of_this_conversation(conn, db):
    with running(conn, db) as turn:
        answer = turn.say("schedule_task", prompt="water the plants", cron=MORNING, session="own")
        assert answer.endswith("You get the prompt then, in a session of its own; the answer goes here.")
        made = series.get(conn, answer.split()[2].rstrip(":"))
        assert made.session_id != turn.claim.session_id
        assert sessions.known(conn, made.session_id).series_id == made.series_id
        assert made.series_id in turn.say("list_tasks")


@pytest.mark.parametrize(
    ("provider", "config", "reason"),
    [
        ("echo", {"tools": "all"}, "you run no programs"),
        ("api", {"models": "openai"}, "you run no programs"),
        ("claude", {}, "you have no shell of your own"),
        ("claude", {"tools": "files"}, "you have no shell of your own"),
        ("codex", {"tools": "files"}, "you have no shell of your own that runs any command"),
        ("opencode", {"tools": "files"}, "you have no shell of your own"),
        ("auto", {}, "you have no shell of your own"),
        ("claude", {"tools": "all", "ask": "shell"}, "an approver is asked before your commands"),
        ("codex", {"tools": "all", "ask": "changes"}, "an approver is asked before your commands"),
    ],
)
def test_an_agent_that_may_not_run_any_command_unasked_plans_no_script(conn, db, provider, config, reason):
    make_agent(conn, "assistant", provider=provider, config=config)
    with running(conn, db) as turn:
        before = dump(conn)
        refused = turn.refusal("schedule_task", prompt="x", cron=MORNING, script="touch unasked")
        assert dump(conn) == before
        task = planned(turn, wake="news")
        assert turn.refusal("update_task", task=task, script="touch unasked") == refused
        assert series.get(conn, task).settings.script == ""
    assert refused.startswith(reason)
    assert refused.endswith(": leave 'script' out, or ask for an operator, who may set it")


@pytest.mark.parametrize(
    ("provider", "config"),
    [
        ("claude", {"tools": "all"}),
        ("codex", {"tools": "all", "ask": "never"}),
        ("opencode", {"tools": "all"}),
        ("command", {"command": ["/bin/true"]}),
    ],
)
@pytest.mark.skipif(not containment.available().is_leash, reason="no leash here")
def test_an_agent_that_runs_any_command_unasked_on_the_leash_plans_a_script(conn, db, provider, config):
    make_agent(conn, "assistant", provider=provider, config=config)
    with running(conn, db) as turn:
        assert series.get(conn, planned(turn, script="ls inbox")).settings.script == "ls inbox"
