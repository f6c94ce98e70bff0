"""``GET /metrics``: each number is that of the rows, the text is as the formats want it, and the series are limited."""

import apsw
import pytest

from shared.db.engine import meta
from shared.db.engine.connection import rows, transaction
from shared.db.platforms import channel_outages, channel_pauses, channel_watches
from shared.db.platforms.channel_outages import ChannelOutage
from shared.db.platforms.channel_watches import ChannelWatch
from shared.db.queue import events
from shared.db.queue.events import NewEvent
from shared.db.roster import agent_pauses
from shared.db.spending import budgets, usage
from shared.db.spending.usage import Tokens, TurnName
from shared.db.views.monitoring import event_totals
from shared.queue import turns
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from shared.rest.metrics import exposition
from shared.rest.metrics.exposition import Family
from shared.rest.metrics.families import LARGEST
from shared.runtime.kick import Listener
from tests.api_client import ask, call, get
from tests.shared.rest.metrics import reader
from tests.support import NOW, answer, make_agent, put, take

WIDE = {"accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"}


@pytest.fixture
def scrape(serving, conn):
    """Reads what is printed now."""

    def read(**headers):
        reply = get(serving, "/metrics", headers=headers)
        assert reply.status_code == 200, reply.text
        is_open_metrics = reply.headers["content-type"].startswith("application/openmetrics-text")
        return reader.read(reply.text, is_open_metrics=is_open_metrics)

    return read


def change(conn, sql, **values):
    with transaction(conn):
        conn.execute(sql, values)


def test_both_formats_say_the_same(scrape, conn):
    put(conn)
    plain, wide = scrape(), scrape(**WIDE)
    assert plain.values.keys() == wide.values.keys()
    assert "postroom_messages_accepted_total" in plain.kinds
    assert "postroom_messages_accepted" in wide.kinds


def test_what_is_settled_of_a_month_is_summed_once(serving, conn):
    with transaction(conn):
        budgets.put(conn, None, "month", "tokens", 10, now_ms=NOW)
    asked = []

    def watch(connection):
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda told: asked.append(told["sql"]))

    apsw.connection_hooks.append(watch)
    try:
        call(serving, *[("GET", "/metrics", {})] * 2)
    finally:
        apsw.connection_hooks.remove(watch)
    assert len([sql for sql in asked if "FROM usage" in sql]) <= 3  # on the first days of a month nothing is settled


def test_each_format_has_its_content_type(serving, conn):
    assert get(serving, "/metrics").headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    kind = get(serving, "/metrics", headers=WIDE).headers["content-type"]
    assert kind == "application/openmetrics-text; version=1.0.0; charset=utf-8"


def test_it_needs_the_token_in_production(serving, conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_API_TOKEN", "s3cret")
    assert get(serving, "/metrics").status_code == 401
    assert get(serving, "/metrics", headers={"authorization": "Bearer s3cret"}).status_code == 200


def test_nobody_may_write_to_it(serving, conn):
    assert ask(serving, "POST", "/metrics", {}).status_code == 405


def test_what_waits_is_told_by_agent_and_state(scrape, conn):
    make_agent(conn, "coder")
    put(conn, "runs", chat="1")
    take(conn, chat="1")
    put(conn, "waits", chat="2")
    put(conn, "of another", agent="coder", chat="3")
    change(conn, "UPDATE messages SET created_at = 1 WHERE message = 'waits'")
    found = scrape()
    assert found.of("postroom_messages", agent="assistant", state="running") == 1
    assert found.of("postroom_messages", agent="assistant", state="due") == 1
    assert found.of("postroom_messages", agent="coder", state="due") == 1
    assert found.of("postroom_messages", agent="coder", state="dead") == 0
    assert found.of("postroom_messages_accepted_total") == 3
    age = found.of("postroom_message_oldest_age_seconds", agent="assistant", state="due")
    assert age > 1_700_000_000


def test_turns_and_answers_are_counted_and_pruning_takes_nothing_away(scrape, conn):
    for number in range(2):
        put(conn, chat=str(number))
        claim = take(conn, chat=str(number))
        with transaction(conn):
            turns.settle(conn, claim, [TurnReply("answer", claim.asked[0])], None, now_ms=NOW)
    put(conn, "fails", chat="9")
    claim = take(conn, chat="9")
    with transaction(conn):
        turns.fail(conn, claim, Failure("bad", retryable=False), RetryPolicy(5, 1, 1, 0.0), now_ms=NOW)
        events.append(conn, "response_outcome_unknown", now_ms=NOW, channel="telegram", agent="assistant")
    before = scrape()
    assert before.of("postroom_turns_begun_total", agent="assistant") == 3
    assert before.of("postroom_turns_completed_total", agent="assistant") == 2
    assert before.of("postroom_messages_dead_total", agent="assistant") == 1
    assert before.of("postroom_message_retries_total", agent="assistant") == 0
    assert before.of("postroom_responses_outcome_unknown_total", channel="telegram") == 1
    assert before.of("postroom_responses_sent_total", channel="discord") == 0
    assert before.of("postroom_events_total", type="chain_step_start") == 3
    with transaction(conn):
        event_totals.add_up(conn, limit=1000)
        assert events.prune(conn, older_than_ms=NOW + 1, limit=1000) > 5
    after = scrape()
    counters = [each for each in before.values if each[0].endswith("_total")]
    assert [after.values[each] for each in counters] == [before.values[each] for each in counters]


def test_answers_are_told_by_channel(scrape, conn):
    answer(conn)
    answer(conn, channel="cli")
    found = scrape()
    assert found.of("postroom_responses", channel="telegram", state="due") == 1
    assert found.of("postroom_responses", channel="cli", state="to_fetch") == 1
    assert {"channel": "telegram", "state": "due"} in found.series("postroom_response_oldest_age_seconds")
    assert not any(each["channel"] == "cli" for each in found.series("postroom_response_oldest_age_seconds"))


def test_what_is_not_well_has_a_one(scrape, conn, environment):
    make_agent(conn, "coder")
    with transaction(conn):
        agent_pauses.pause(conn, "coder", "quota", "the plan is used up", now_ms=NOW)
        channel_pauses.pause(conn, "discord", "no token", check_at=NOW, now_ms=NOW)
        channel_outages.begin(conn, ChannelOutage("telegram", NOW, "unreachable", "no route", NOW), now_ms=NOW)
        watch = ChannelWatch("telegram", NOW, None, None, None, "deaf", "not_registered", "no address", NOW)
        channel_watches.put(conn, watch)
        meta.put(conn, "heartbeat_at", "1800000000500")
    listening = Listener(environment, "dispatch")
    found = scrape()
    listening.close()
    assert [found.of("postroom_agent_paused", agent=each) for each in ("assistant", "coder")] == [0, 1]
    for name, values in {"paused": (0, 1), "outage": (1, 0), "deaf": (1, 0)}.items():
        seen = [found.of(f"postroom_channel_{name}", channel=each) for each in ("telegram", "discord")]
        assert tuple(seen) == values, name
    assert [found.of("postroom_function_up", function=each) for each in ("dispatch", "deliver")] == [1, 0]
    assert found.of("postroom_last_sweep_timestamp_seconds") == 1_800_000_000.5


def test_budgets_say_what_is_left(scrape, conn):
    with transaction(conn):
        budgets.put(conn, "assistant", "month", "money", 5_000_000, now_ms=NOW)
        budgets.put(conn, None, "day", "tokens", 1000, now_ms=NOW)
        now_ms = 2_000_000_000_000  # later than the clock of any machine, so in its month or after it
        usage.add(conn, TurnName("t", "assistant", "s"), "m", "key", Tokens(1200), 1_250_000, now_ms=now_ms)
    found = scrape()
    assert found.of("postroom_budget_limit_dollars", agent="assistant", period="month") == 5
    assert found.of("postroom_budget_left_dollars", agent="assistant", period="month") == 3.75
    assert found.of("postroom_budget_left_tokens", agent="(all)", period="day") == -200
    assert found.series("postroom_budget_limit_tokens") == [{"agent": "(all)", "period": "day"}]


def test_the_disk_and_the_log_have_sizes(scrape, conn, db):
    put(conn)
    found = scrape()
    assert found.of("postroom_wal_size_bytes") == db.with_name(f"{db.name}-wal").stat().st_size > 0
    assert found.of("postroom_database_size_bytes") == db.stat().st_size
    assert found.of("postroom_disk_free_bytes") > 0


def test_what_is_not_known_is_absent(scrape, conn):
    """A lag of 0 where nothing replicates would be a lie that an alert believes."""
    found = scrape()
    for name in ("replica_up", "replica_lag_seconds", "replica_proven_restore_timestamp_seconds"):
        assert f"postroom_{name}" not in found.kinds


def test_a_litestream_that_does_not_answer_is_down(scrape, conn, monkeypatch, tmp_path):
    monkeypatch.setenv("POSTROOM_LITESTREAM_SOCKET", str(tmp_path / "none.sock"))
    found = scrape()
    assert found.of("postroom_replica_up") == 0
    assert "postroom_replica_lag_seconds" not in found.kinds


def test_many_agents_share_a_series_and_none_moves_to_another(scrape, conn):
    """Those that came first keep theirs, also where they are deleted: a sum that falls and rises looks like work."""
    with transaction(conn):
        new = (NewEvent("message_dead", NOW, agent=f"agent-{number:03}") for number in range(LARGEST + 10))
        events.append_many(conn, new)
        event_totals.add_up(conn, limit=1000)
    make_agent(conn, "aaa")
    with transaction(conn):
        events.append(conn, "message_dead", now_ms=NOW, agent="aaa")
    found = scrape()
    assert len(found.series("postroom_messages_dead_total")) == LARGEST + 1
    assert found.of("postroom_messages_dead_total", agent="agent-000") == 1
    assert found.of("postroom_messages_dead_total", agent="(other)") == 11
    assert {each["agent"] for each in found.series("postroom_messages") if each["agent"][0] != "a"} == {"(other)"}


def test_channels_of_callers_can_not_make_series_without_end(scrape, conn):
    with transaction(conn):
        events.append_many(
            conn, (NewEvent("response_acked", NOW, channel=f"made-up-{number}") for number in range(LARGEST * 2))
        )
    found = scrape().series("postroom_responses_sent_total")
    assert len(found) == LARGEST + 1
    assert {"telegram", "discord", "(other)"} <= {each["channel"] for each in found}


def test_no_text_of_a_person_is_in_it(serving, conn):
    put(conn, "a secret wish")
    rows(conn, "UPDATE messages SET status = 'dead', last_error = 'a secret reason'")
    assert "secret" not in get(serving, "/metrics").text


def test_labels_are_escaped():
    family = Family("postroom_x", "gauge", "Of a test.", [({"agent": 'a\\b"c\nd'}, 1)])
    text = exposition.text([family], is_open_metrics=False)
    assert 'postroom_x{agent="a\\\\b\\"c\\nd"} 1' in text
    reader.read(text)
