"""How many rows are open in which state, and how old the oldest is; never from a scan of what is finished."""

import pytest

from shared.db.engine.connection import transaction
from shared.db.roster import agent_pauses
from shared.db.views.monitoring import depths
from shared.db.views.monitoring.depths import Depth
from tests.support import NOW, answer, make_agent, plan, put, take

SOON = NOW + 60_000


def change(conn, sql, **values):
    with transaction(conn):
        conn.execute(sql, values)


def _order(each):
    return each.name, each.state


def of(conn, *, agent):
    found = [each for each in depths.messages(conn, now_ms=NOW) if each.name == agent]
    return {each.state: (each.number, each.oldest_ms) for each in found}


def test_each_open_message_is_in_one_state_with_the_age_of_the_oldest(conn):
    put(conn, "runs", chat="1")
    take(conn, chat="1")
    oldest = put(conn, "waits", chat="2")
    put(conn, "waits too", chat="2")
    put(conn, "planned", chat="3", process_after=SOON)
    failed, dead = put(conn, "failed", chat="4", process_after=SOON), put(conn, "dead", chat="5")
    put(conn, "done", chat="6")
    change(conn, "UPDATE messages SET created_at = :then WHERE id = :id", then=NOW - 5000, id=oldest)
    change(conn, "UPDATE messages SET failure = 'crashed' WHERE id = :id", id=failed)
    change(conn, "UPDATE messages SET status = 'dead' WHERE id = :id", id=dead)
    change(conn, "UPDATE messages SET status = 'completed' WHERE id = (SELECT max(id) FROM messages)")
    assert of(conn, agent="assistant") == {
        "running": (1, NOW),
        "due": (2, NOW - 5000),
        "planned": (1, None),
        "retrying": (1, NOW),
        "dead": (1, NOW),
    }


def test_what_was_planned_has_the_age_since_it_is_due_and_hides_nothing_that_waits_for_longer(conn):
    """A task of every day was made a day before: it was a day old in the second in which it was due."""
    put(conn, "of yesterday", chat="1", process_after=NOW - 1000, now_ms=NOW - 86_400_000)
    assert of(conn, agent="assistant") == {"due": (1, NOW - 1000)}
    put(conn, "asked", chat="2", now_ms=NOW - 9000)
    assert of(conn, agent="assistant") == {"due": (2, NOW - 9000)}


def test_what_runs_has_the_age_of_its_turn(conn):
    put(conn, now_ms=NOW - 86_400_000)
    take(conn, now_ms=NOW - 3000)
    assert of(conn, agent="assistant") == {"running": (1, NOW - 3000)}


def test_a_task_that_failed_has_waited_since_its_instant(conn):
    task = put(conn, process_after=NOW - 1, now_ms=NOW - 86_400_000)
    change(conn, "UPDATE messages SET failure = 'crashed', scheduled_at = :at WHERE id = :id", at=NOW - 7000, id=task)
    assert of(conn, agent="assistant") == {"due": (1, NOW - 7000)}


def test_what_waits_for_a_paused_agent_is_paused_and_what_it_runs_runs(conn):
    make_agent(conn, "coder")
    put(conn, "runs", agent="coder", chat="1")
    take(conn, agent="coder", chat="1")
    put(conn, "waits", agent="coder", chat="2")
    put(conn, "planned", agent="coder", chat="3", process_after=SOON)
    put(conn, "of another agent")
    with transaction(conn):
        agent_pauses.pause(conn, "coder", "auth", "the login has expired", now_ms=NOW)
    assert of(conn, agent="coder") == {"running": (1, NOW), "paused": (1, None), "planned": (1, None)}
    assert of(conn, agent="assistant") == {"due": (1, NOW)}


def test_answers_are_told_by_channel_and_what_a_client_fetches_is_apart(conn):
    answer(conn, chat="1")
    answer(conn, chat="2", deliver_after=SOON)
    failed, dead, given_up = answer(conn, chat="3", deliver_after=SOON), answer(conn, chat="4"), answer(conn, chat="5")
    sending = answer(conn, chat="6")
    answer(conn, channel="cli")
    change(conn, "UPDATE responses SET failure = 'error' WHERE id = :id", id=failed)
    change(conn, "UPDATE responses SET status = 'dead' WHERE id = :id OR id = :other", id=dead, other=given_up)
    change(conn, "UPDATE responses SET failure = 'not_fetched' WHERE id = :id", id=given_up)
    change(conn, "UPDATE responses SET status = 'delivering', claimed_by = 't', lease = 1 WHERE id = :id", id=sending)
    found = depths.responses(conn, served={"telegram", "discord"}, now_ms=NOW)
    assert sorted(found, key=_order) == sorted(
        [
            Depth("telegram", "due", 1, NOW),
            Depth("telegram", "planned", 1, None),
            Depth("telegram", "retrying", 1, NOW),
            Depth("telegram", "sending", 1, NOW),
            Depth("telegram", "dead", 1, NOW),
            Depth("cli", "to_fetch", 1, None),
        ],
        key=_order,
    )


def test_tasks_are_due_or_planned(conn):
    put(conn, "late", series_id="a", process_after=NOW - 1)
    put(conn, "soon", series_id="b", process_after=SOON)
    put(conn, "no task")
    assert depths.tasks(conn, now_ms=NOW) == {"due": 1, "planned": 1, "paused": 0, "running": 0}


@pytest.mark.parametrize("name", ["MESSAGES", "DEAD_MESSAGES", "RESPONSES", "DEAD_RESPONSES", "TASKS"])
def test_no_query_reads_finished_rows(conn, name):
    """Each table is read by a partial index of open or dead rows, or by the id of one row."""
    sql = getattr(depths, name)
    lines = plan(conn, sql, **({"now": NOW} if ":now" in sql else {}))
    read = [each for each in lines if each.startswith(("SCAN ", "SEARCH "))]
    tables = [each for each in read if each.split()[1] in ("messages", "responses", "m", "r")]
    assert tables
    for line in tables:
        assert " USING " in line, lines
        assert any(
            index in line
            for index in (
                "_open",
                "messages_dead",
                "_unsent",
                "_delayed",
                "_planned",
                "USING INTEGER PRIMARY KEY (rowid=?)",
            )
        ), line
