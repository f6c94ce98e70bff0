"""What is pruned, and late copies of it."""

import asyncio
import os
from collections import Counter
from functools import partial

from functions import sweep
from functions.recurrence import Recurrence
from functions.sweep import Sweep
from shared.conversation.access import requests
from shared.conversation.inbound import pairing
from shared.core import ids
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.access import approvals, dropped, questions, rates
from shared.db.engine import meta
from shared.db.engine.connection import rows, transaction
from shared.db.queue import agent_messages, conversations, events, forgotten_people, responses
from shared.db.queue.agent_messages import AgentMessage
from shared.db.spending import usage
from shared.db.spending.usage import Tokens, TurnName
from shared.runtime.kick import Listener
from tests.approval_requests import LATE, POLICY, person
from tests.functions.sweep.kit import DAY, NINE, SERIES, done, missed, run, sweep_at
from tests.support import LEASE, NOW, TICK, answer, column, make_session, put, take

SLOW = """
    SELECT max(n) FROM (WITH RECURSIVE numbers (n) AS (
        SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 20000) SELECT n FROM numbers)
"""  # a millisecond or more


def completed(conn, count, **fields):
    """*count* messages, completed at NOW."""
    _, session = make_session(conn)
    values = {"from_agent": None, "updated_at": NOW, **fields}
    with transaction(conn):
        conn.executemany(
            "INSERT INTO messages (id_prefix, channel, sender, message, agent, message_id, session_id, status,"
            " from_agent, created_at, updated_at) VALUES ('x', 'x', 'A', 't', 'assistant', ?, ?, 'completed', ?, ?, ?)",
            (
                (ids.new("x"), session, values["from_agent"], NOW, values["updated_at"] + number)
                for number in range(count)
            ),
        )


def histories(conn, count, at_ms):
    """*count* rows of each history, from *at_ms* on."""
    with transaction(conn):
        for number in range(count):
            events.append(conn, "test", now_ms=at_ms)
            insert = (
                "INSERT INTO schedule_runs (series_id, message_id, due_at, started_at) VALUES (:series, 'm', :at, :at)"
            )
            rows(conn, insert, {"series": f"s{number}", "at": at_ms})
            dropped.record(conn, channel="x", reason="empty", now_ms=at_ms)


def test_a_sweep_prunes_rows_older_than_a_day(conn):
    completed(conn, 1203, updated_at=NOW - 1202)
    assert done(sweep_at(NOW - 1202 + DAY)) == {}
    assert done(sweep_at(NOW + DAY + 1)) == {"pruned_messages": 1202}
    assert column(conn, "SELECT count(*) FROM messages") == [1]


def test_usage_is_kept_as_long_as_a_budget_counts_it(conn):
    with transaction(conn):
        usage.add(conn, TurnName("turn_1", "coder", "session_1"), "m", "key", Tokens(1), 1, now_ms=NOW)
    assert done(sweep_at(NOW + 32 * DAY)) == {}
    assert done(sweep_at(NOW + 32 * DAY + 1)) == {"pruned_usage": 1}


def test_a_sweep_prunes_each_history_after_a_month_until_nothing_old_is_left(conn):
    histories(conn, 603, NOW)
    assert done(sweep_at(NOW + 30 * DAY)) == {}
    assert done(sweep_at(NOW + 30 * DAY + 1)) == {"pruned_events": 602, "pruned_runs": 602, "pruned_refusals": 603}
    for table in ("events", "schedule_runs"):  # the newest row stays, so that no id is used twice
        assert column(conn, f"SELECT id FROM {table}") == [603]


def test_a_history_retention_of_zero_keeps_it_for_ever(conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_HISTORY_RETENTION_MS", "0")
    histories(conn, 3, NOW)
    assert done(sweep_at(NOW + 10_000 * DAY)) == {}


def test_the_newest_thousand_messages_between_agents_stay_however_old(conn):
    completed(conn, 1203, from_agent="second")
    completed(conn, 5)
    assert done(sweep_at(NOW + 9 * DAY)) == {"pruned_messages": 203 + 4}
    kept = column(conn, "SELECT id FROM messages WHERE from_agent IS NOT NULL ORDER BY id")
    assert (len(kept), kept[0], kept[-1]) == (1000, 204, 1203)


def test_the_live_row_of_a_series_is_never_pruned(conn):
    """An ended row without a successor stays too; with a successor it is pruned like any other."""
    missed(conn)
    put(conn, "planned", process_after=NOW + 99 * DAY, **{**SERIES, "series_id": "s2"})
    put(conn, "newest")
    assert done(sweep_at(NOW + 9 * DAY)) == {}
    run(Recurrence, NINE)
    assert done(sweep_at(NOW + 9 * DAY)) == {"pruned_messages": 1}
    assert column(conn, "SELECT series_id FROM messages WHERE recurrence IS NOT NULL ORDER BY 1") == ["s1", "s2"]


def test_no_transaction_of_a_sweep_changes_more_rows_than_a_batch(conn, written):
    """However fast the machine is; ``BatchSize`` says how many they are on a slow one.

    Events wait until they are counted; on a slow machine the next sweep deletes the last of them.
    """
    completed(conn, 1203)
    histories(conn, 603, NOW)
    swept: Counter[str] = Counter()
    while found := done(sweep_at(NOW + 31 * DAY)):
        swept.update(found)
    assert sum(written) >= sum(swept.values()) == 1202 + 602 + 602 + 603
    assert max(written) <= 250


def test_a_long_chore_does_not_delay_the_others(conn, written):
    """The chores take turns, so a sweep that is cut off has done a part of each."""
    completed(conn, 1203)
    histories(conn, 3, NOW)
    sweep_at(NOW + 31 * DAY)
    first, _, *others = [count for count in written if count][:5]  # the second adds up the events
    assert first <= 25, "fewer where the machine is slow"
    assert others == [2, 2, 3]


def test_rows_that_take_long_are_pruned_in_small_batches(conn, written):
    """Each of them takes a millisecond or more: no other writer waits for 250."""
    completed(conn, 103)
    with transaction(conn):
        rows(conn, f"CREATE TRIGGER slow BEFORE DELETE ON messages BEGIN {SLOW}; END")
    assert done(sweep_at(NOW + 2 * DAY)) == {"pruned_messages": 102}
    batches = [count for count in written if count]
    assert batches[0] == 5, "it stops after the first step"
    assert max(batches[1:]) <= 5


def test_turns_that_take_long_are_rescued_a_few_at_once(conn, written):
    """The process that is gone may have had a hundred of them."""
    for number in range(12):
        put(conn, chat=str(number))
        assert take(conn, chat=str(number), token=f"turn_{number}")
    with transaction(conn):
        rows(conn, f"CREATE TRIGGER slow BEFORE UPDATE ON messages BEGIN {SLOW}; END")
    assert done(sweep_at(NOW + LEASE + 1)) == {"rescued_turns": 12}
    assert column(conn, "SELECT DISTINCT status FROM messages") == ["pending"]
    assert len([count for count in written if count >= 2]) >= 3


def test_sends_that_take_long_are_rescued_a_few_at_once(conn, written):
    for number in range(12):
        sent = answer(conn, channel="telegram" if number % 2 else "discord")
        with transaction(conn):
            responses.claim(conn, sent, token=f"send_{number}", now_ms=NOW, lease_ms=LEASE)
    with transaction(conn):
        rows(conn, f"CREATE TRIGGER slow BEFORE UPDATE ON responses BEGIN {SLOW}; END")
    assert done(sweep_at(NOW + LEASE + 1)) == {"rescued_sends": 12}
    assert column(conn, "SELECT DISTINCT status FROM responses") == ["pending"]
    assert len([count for count in written if count >= 2]) >= 3


def test_the_log_of_a_sweep_has_only_what_it_did():
    """A sweep comes each minute, and mostly does nothing: twenty zeros hid the one number that counts."""
    idle = sweep.Swept(dict.fromkeys(("rescued_turns", "pruned_events"), 0))
    assert idle.news() == {}
    counts = {"rescued_turns": 0, "counted_events": 9, "pruned_events": 7}
    busy = sweep.Swept(counts, failed=["pruned_messages"], longest_s=0.00312)
    assert busy.news() == {"pruned_events": 7, "failed": ["pruned_messages"]}
    assert busy.as_dict() == {**counts, "failed": ["pruned_messages"], "left": [], "longest_batch_ms": 3.1}


def test_a_failing_chore_is_counted_and_stops_no_other(serving, conn):
    completed(conn, 3, updated_at=1)
    rows(conn, "UPDATE messages SET created_at = 1")
    with transaction(conn):
        rows(conn, "CREATE TRIGGER broken BEFORE DELETE ON messages BEGIN SELECT raise(ABORT, 'broken'); END")

    async def go():
        async with serving(sweep) as client:
            return await client.post("/tick", headers=TICK)

    told = asyncio.run(go())
    assert (told.status_code, told.json()["failed"]) == (500, ["pruned_messages"])
    assert told.json()["pruned_messages"] == 0
    assert meta.get(conn, "heartbeat_at") is not None


def test_after_a_failing_chore_the_others_have_run(conn):
    completed(conn, 3)
    histories(conn, 3, NOW)
    with transaction(conn):
        rows(conn, "CREATE TRIGGER broken BEFORE DELETE ON messages BEGIN SELECT raise(ABORT, 'broken'); END")
    swept = sweep_at(NOW + 31 * DAY)
    assert swept.failed == ["pruned_messages"]
    assert [swept.counts[name] for name in ("pruned_events", "pruned_runs", "pruned_refusals")] == [2, 2, 3]
    rows(conn, "DROP TRIGGER broken")
    assert done(sweep_at(NOW + 31 * DAY)) == {"pruned_messages": 2}


def test_questions_approvals_and_conversations_end_when_their_time_is_over(conn):
    _, session = make_session(conn)
    with transaction(conn):
        questions.ask(conn, session_id=session, question="Which?", expires_at=NOW + 1000, now_ms=NOW)
        approvals.request(conn, approvals.NewApproval("chat", {}), expires_at=NOW + 1000, now_ms=NOW)
        conversations.begin(conn, now_ms=NOW)
    assert done(sweep_at(NOW + 999)) == {}
    assert done(sweep_at(NOW + 1000)) == {"expired_questions": 1, "expired_approvals": 1}
    assert done(sweep_at(NOW + 30 * 60_000)) == {}
    assert done(sweep_at(NOW + 30 * 60_000 + 1)) == {"closed_conversations": 1}


def test_the_older_lines_of_people_who_are_forgotten_are_deleted_by_slices(conn):
    _, session = make_session(conn)
    line = AgentMessage("assistant", "user", "telegram", "Ana", "m", "old", NOW, session)
    with transaction(conn):
        for who in ("5", "6"):
            agent_messages.append(conn, [line._replace(sender_id=who)] * 700)
        for who in ("5", "7"):
            forgotten_people.put_off(conn, forgotten_people.of("assistant", "telegram", who))
    assert done(sweep_at(NOW))["forgotten_lines"] == 700
    assert column(conn, "SELECT DISTINCT sender_id FROM agent_messages") == ["6"]
    assert "forgotten_lines" not in done(sweep_at(NOW))


def test_an_expired_approval_is_told_on_its_card_and_to_the_requester(conn, environment):
    person(conn, "1", "owner")
    _, session = make_session(conn)
    with transaction(conn):
        requests.ask_action(conn, session, "assistant", "create_agent", {"name": "Bob"}, policy=POLICY, now_ms=NOW)
    listeners = [Listener(environment, name) for name in ("dispatch", "deliver")]
    assert done(sweep_at(LATE)) == {"expired_approvals": 1}
    for listener in listeners:
        listener._socket.setblocking(False)
        assert listener._socket.recv(16) == b"k"
        listener.close()
    assert column(conn, "SELECT kind FROM messages") == ["system"]
    assert column(conn, "SELECT content ->> '$.edits' FROM responses ORDER BY id") == [None, 1]


def test_a_sweep_asks_approvers_who_can_be_reached_by_now(conn):
    _, session = make_session(conn)
    with transaction(conn):
        requests.ask_action(conn, session, "assistant", "create_agent", {"name": "Bob"}, policy=POLICY, now_ms=NOW)
    assert done(sweep_at(NOW)) == {}
    person(conn, "1", "owner")
    assert done(sweep_at(NOW)) == {"shown_approvals": 1}
    assert done(sweep_at(NOW)) == {}


def test_expired_codes_and_rates_are_pruned(conn):
    with transaction(conn):
        pairing.make(conn, "owner", life_ms=1000, now_ms=NOW)
        rates.take(conn, rates.key("sender", "telegram", "5"), per_minute=60, burst=60, now_ms=NOW)
    assert done(sweep_at(NOW + 1000)) == {"expired_pairings": 1}
    assert done(sweep_at(NOW + 61_001)) == {"pruned_rates": 1}
    assert done(sweep_at(NOW + 1000 + 30 * DAY)) == {}
    assert done(sweep_at(NOW + 1001 + 30 * DAY)) == {"pruned_pairings": 1}


def test_unfetched_responses_go_dead_after_a_day_and_are_pruned_after_a_month(conn):
    for channel in ("api", "telegram"):
        answer(conn, channel=channel)
    answer(conn, channel="schedule")
    answer(conn)
    assert done(sweep_at(NOW + DAY)) == {}
    assert done(sweep_at(NOW + DAY + 1)) == {"given_up_responses": 2}
    assert rows(conn, "SELECT channel, status FROM responses ORDER BY id") == [
        *(("api", "dead"), ("telegram", "pending"), ("schedule", "dead"), ("telegram", "pending"))
    ]
    assert done(sweep_at(NOW + 30 * DAY + 1))["given_up_responses"] == 2
    assert column(conn, "SELECT DISTINCT channel FROM responses") == ["telegram"]


def test_ended_approvals_are_kept_as_long_as_the_history(conn):
    with transaction(conn):
        made, _ = approvals.request(conn, approvals.NewApproval("tool", {}), expires_at=NOW + 1000, now_ms=NOW)
        approvals.decide(conn, made.approval_id, choice=0, decided_by="t", now_ms=NOW)
    assert done(sweep_at(NOW + 30 * DAY)) == {}
    assert done(sweep_at(NOW + 30 * DAY + 1))["pruned_approvals"] == 1


def test_only_small_tables_are_analysed(conn):
    """Counting a million rows under the write lock takes 0.3 s."""
    completed(conn, 5)
    assert sweep_at(NOW).counts["analysed_tables"] > 0
    names = column(conn, "SELECT DISTINCT tbl FROM sqlite_stat1")
    assert {"messages", "sessions"} <= set(names)
    rows(conn, "DELETE FROM sqlite_stat1")
    rows(conn, "UPDATE messages SET id = 8001 WHERE id = 5")
    sweep_at(NOW)
    assert "messages" not in column(conn, "SELECT DISTINCT tbl FROM sqlite_stat1")
    assert "sessions" in column(conn, "SELECT DISTINCT tbl FROM sqlite_stat1")


def test_a_sweep_that_takes_too_long_leaves_the_rest_to_the_next(conn):
    completed(conn, 603)
    swept = run(partial(Sweep, longest_s=0.0), NOW + 2 * DAY)
    assert (swept.counts["pruned_messages"], "pruned_messages" in swept.left) == (0, True)
    assert done(sweep_at(NOW + 2 * DAY)) == {"pruned_messages": 602}


class HurryingClocks(clock.MachineClocks):
    """A second passes between any two looks."""

    looks = 0.0

    def monotonic_s(self):
        self.looks += 1
        return self.looks


def test_the_time_of_a_sweep_is_that_of_all_its_parts(conn):
    """Rescues, waits and chores once had 40 s each, and the runner cut the sweep off after 50."""
    completed(conn, 3)
    put(conn)
    take(conn)
    clock.run_on(HurryingClocks())
    try:
        swept = run(partial(Sweep, longest_s=1.5), NOW + 2 * DAY)
    finally:
        clock.run_on(clock.MachineClocks())
    assert (swept.counts["rescued_turns"], swept.counts["pruned_messages"]) == (1, 0)
    assert "pruned_messages" in swept.left
    assert "rescued_turns" not in swept.left
    assert done(sweep_at(NOW + 2 * DAY))["pruned_messages"] > 0


def test_a_sweep_leaves_its_heartbeat(conn):
    sweep_at(NOW)
    assert meta.get(conn, "heartbeat_at") == str(NOW)


def test_what_makes_a_late_copy_known_outlives_every_retention(conn, monkeypatch):
    """A retention of nothing is allowed; an event that comes again a minute later is no second turn."""
    monkeypatch.setenv("POSTROOM_RETENTION_MS", "0")
    monkeypatch.setenv("POSTROOM_HISTORY_RETENTION_MS", "1")
    settle_all = "UPDATE messages SET status = 'completed'"
    put(conn, event_key="730")
    put(conn)
    with transaction(conn):
        rows(conn, settle_all)
        dropped.record(conn, channel="telegram", reason="empty", event_key="731", now_ms=NOW)
    assert done(sweep_at(NOW + 60_000))["pruned_messages"] == 1
    assert put(conn, event_key="730", now_ms=NOW + 60_000) is None
    assert column(conn, "SELECT event_key FROM dropped") == ["731"]

    found = done(sweep_at(NOW + 3 * DAY + 1))
    assert (found["pruned_event_keys"], found["pruned_refusals"]) == (1, 1)


def test_a_sweep_deletes_the_files_that_agents_sent_after_a_week(db):
    store = Settings.load().files
    for name, age_ms in {"turn_old": 8 * DAY, "turn_new": 6 * DAY}.items():
        (store / name).mkdir(parents=True)
        (store / name / "report.pdf").touch()
        os.utime(store / name, ((NOW - age_ms) / 1000,) * 2)
    assert done(sweep_at(NOW)) == {"deleted_files": 1}
    assert [each.name for each in store.iterdir()] == ["turn_new"]


def test_a_sweep_deletes_what_lies_in_the_boxes_of_agents_for_a_day(tmp_path, monkeypatch):
    monkeypatch.setenv("POSTROOM_AGENTS_DIR", str(tmp_path))
    file = tmp_path / "assistant" / "sessions" / "session_a" / "outbox" / "report.pdf"
    file.parent.mkdir(parents=True)
    file.touch()
    os.utime(file, (NOW / 1000,) * 2)
    assert done(sweep_at(NOW + DAY)) == {}
    assert done(sweep_at(NOW + DAY + 1)) == {"deleted_of_boxes": 1}
    assert not file.exists()
