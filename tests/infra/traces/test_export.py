"""A message's trace from its rows: what each span says, that a second export says the same, and what is left alone."""

import asyncio
import hashlib
import json

import httpx
import pytest

from infra.traces.cursor import Cursor
from infra.traces.export import Export
from infra.traces.otlp import Collector, NotExported
from infra.traces.program import sender
from shared.core.errors import ConfigInvalid
from shared.db.access import tool_calls
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.queue import events, fetched_responses, messages
from shared.db.spending import usage
from shared.db.spending.usage import Tokens, TurnName
from shared.queue import turns
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from shared.runtime.http_client import NoAnswer
from tests.fake_client import FakeClient
from tests.infra.traces.kit import COLLECTOR, Taken, attributes, export
from tests.support import NOW, make_session, put, take

RETRY = RetryPolicy(5, 1000, 1000, 0.0)


def announce(conn):
    with transaction(conn):
        messages.announce(conn)


def settle(conn, claim, *, now_ms=NOW + 3000):
    with transaction(conn):
        turns.settle(conn, claim, [TurnReply("a secret answer", claim.asked[0])], None, now_ms=now_ms)


def ack(conn, *, now_ms=NOW + 4000):
    with transaction(conn):
        fetched_responses.ack(conn, 1, adapters=(), now_ms=now_ms)


@pytest.fixture
def answered(conn):
    """A message that was answered, with a model and a tool; it stands in a trace of its own."""
    put(conn, "a secret wish", given_id="wish_1")
    announce(conn)
    claim = take(conn, now_ms=NOW + 1000)
    session = rows(conn, "SELECT session_id FROM sessions WHERE id = ?", (make_session(conn)[1],))[0][0]
    with transaction(conn):
        name = TurnName("turn_a", "assistant", session, ("wish_1",))
        usage.add(conn, name, "model-1", "key", Tokens(10, 20, 5), 7, now_ms=NOW + 1500)
        tool_calls.put(conn, "turn_a", "k1", "send_message", "a secret told", now_ms=NOW + 2000)
    settle(conn, claim)
    ack(conn)
    return session


def test_one_message_is_one_trace(conn, answered):
    taken = Taken()
    export(conn, taken)
    assert {span["traceId"] for span in taken.spans} == {hashlib.sha256(b"wish_1").hexdigest()[:32]}
    root = taken.one("process telegram")
    tool = taken.one("execute_tool send_message")
    turn = taken.one("invoke_agent assistant")
    assert "parentSpanId" not in root
    assert tool["parentSpanId"] == turn["spanId"]
    others = [span for span in taken.spans if span not in (root, tool)]
    assert [span["name"] for span in others] == [
        "receive telegram", "wait", "invoke_agent assistant", "send telegram"
    ]  # fmt: skip
    assert {span["parentSpanId"] for span in others} == {root["spanId"]}


def test_each_span_has_its_own_time(conn, answered):
    taken = Taken()
    export(conn, taken)
    seen = {
        span["name"]: tuple(int(span[f"{end}TimeUnixNano"]) // 10**6 - NOW for end in ("start", "end"))
        for span in taken.spans
    }
    assert seen == {
        "receive telegram": (0, 0),
        "wait": (0, 1000),
        "invoke_agent assistant": (1000, 3000),
        "execute_tool send_message": (2000, 2000),
        "process telegram": (0, 3000),
        "send telegram": (3000, 4000),
    }


def test_attributes_follow_the_conventions(conn, answered):
    taken = Taken()
    export(conn, taken)
    turn = attributes(taken.one("invoke_agent assistant"))
    assert turn == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.id": "assistant",
        "gen_ai.agent.name": "assistant",
        "gen_ai.conversation.id": answered,
        "gen_ai.request.model": "model-1",
        "gen_ai.usage.input_tokens": "15",
        "gen_ai.usage.output_tokens": "20",
        "messaging.batch.message_count": "1",
        "postroom.attempt": "1",
        "postroom.model.requests": "1",
    }
    root = taken.one("process telegram")
    assert (root["kind"], taken.one("send telegram")["kind"], taken.one("wait")["kind"]) == (5, 4, 1)
    assert attributes(root)["messaging.message.id"] == "wish_1"
    assert attributes(root)["messaging.destination.name"] == "telegram"
    assert attributes(root)["postroom.outcome"] == "completed"


def test_no_text_of_a_person_or_an_agent_is_exported(conn, answered):
    taken = Taken()
    export(conn, taken)
    sent = b"".join(request.content for request in taken.requests)
    assert b"secret" not in sent
    assert b"Ana" not in sent


def test_a_second_export_makes_the_same_spans(conn, answered):
    """Also after the rows are pruned: then the events are all that is left."""
    first, second, pruned = Taken(), Taken(), Taken()
    export(conn, first)
    export(conn, second)
    assert second.spans == first.spans
    rows(conn, "DELETE FROM responses; DELETE FROM messages; DELETE FROM tool_calls")
    export(conn, pruned)
    assert pruned.spans == [span for span in first.spans if span["name"] != "execute_tool send_message"]


@pytest.mark.parametrize("at", range(6))
def test_a_restart_anywhere_exports_each_span_once(conn, answered, at):
    taken = Taken()
    whole = Taken()
    export(conn, whole)
    cursor = export(conn, taken, last=at) if at else Cursor(0, 0)
    cursor = export(conn, taken, cursor)
    assert sorted(map(json.dumps, taken.spans)) == sorted(map(json.dumps, whole.spans))
    assert cursor == Cursor(events.latest_id(conn), events.latest_id(conn))


def test_a_message_that_is_open_is_remembered_over_a_restart(conn):
    put(conn, given_id="wish_1")
    announce(conn)
    cursor = export(conn, Taken())
    assert cursor == Cursor(1, 0), "the next start reads its arrival again"
    claim = take(conn, now_ms=NOW + 1000)
    settle(conn, claim)
    taken = Taken()
    export(conn, taken, cursor)
    assert [span["name"] for span in taken.spans] == ["wait", "invoke_agent assistant", "process telegram"]


def test_a_failed_turn_has_its_code_and_the_wait_for_the_next_follows(conn):
    put(conn, given_id="wish_1")
    announce(conn)
    claim = take(conn, now_ms=NOW + 1000)
    with transaction(conn):
        turns.fail(conn, claim, Failure("a secret reason", code="crashed"), RETRY, now_ms=NOW + 2000)
    claim = take(conn, now_ms=NOW + 60_000)
    settle(conn, claim, now_ms=NOW + 61_000)
    taken = Taken()
    export(conn, taken)
    failed, done = (span for span in taken.spans if span["name"] == "invoke_agent assistant")
    assert (attributes(failed)["error.type"], failed["status"]) == ("crashed", {"code": 2})
    assert (attributes(done)["postroom.attempt"], done["status"]) == ("2", {})
    assert taken.one("process telegram")["startTimeUnixNano"] == str(NOW * 10**6)
    assert [span["endTimeUnixNano"] for span in taken.spans if span["name"] == "wait"] == [
        str((NOW + 1000) * 10**6), str((NOW + 60_000) * 10**6)
    ]  # fmt: skip


def test_a_dead_message_ends_its_trace_with_an_error(conn):
    put(conn, given_id="wish_1")
    announce(conn)
    claim = take(conn, now_ms=NOW + 1000)
    with transaction(conn):
        turns.fail(conn, claim, Failure("bad", retryable=False, code="crashed"), RETRY, now_ms=NOW + 2000)
    taken = Taken()
    export(conn, taken)
    root = taken.one("process telegram")
    assert (root["status"], attributes(root)["postroom.outcome"]) == ({"code": 2}, "dead")
    assert attributes(root)["error.type"] == "crashed"


def test_a_turn_over_two_messages_is_linked_to_both(conn):
    put(conn, "one", given_id="wish_1")
    put(conn, "two", given_id="wish_2")
    announce(conn)
    settle(conn, take(conn, now_ms=NOW + 1000))
    taken = Taken()
    export(conn, taken)
    turn = taken.one("invoke_agent assistant")
    first, second = (span for span in taken.spans if span["name"] == "process telegram")
    assert turn["traceId"] == first["traceId"]
    assert len({span["spanId"] for span in taken.spans}) == len(taken.spans)
    assert turn["links"] == [{"traceId": second["traceId"], "spanId": second["spanId"]}]


def test_what_was_tried_again_stands_in_the_send(conn):
    put(conn, given_id="wish_1")
    announce(conn)
    settle(conn, take(conn))
    with transaction(conn):
        data = {"reason": "a secret reason", "failure": "rate_limited"}
        events.append(conn, "response_retry", now_ms=NOW + 3500, message_id="wish_1", response_id=1, data=data)
    ack(conn)
    taken = Taken()
    export(conn, taken)
    (note,) = taken.one("send telegram")["events"]
    assert (note["name"], attributes(note)) == ("retry", {"error.type": "rate_limited"})


def test_a_send_of_nobodys_message_is_a_trace_of_its_own(conn):
    with transaction(conn):
        for type_, at in (("response_ready", NOW), ("response_acked", NOW + 1)):
            events.append(
                conn, type_, now_ms=at, message_id="proactive_1", response_id=1, agent="a", channel="telegram"
            )
    taken = Taken()
    export(conn, taken)
    assert "parentSpanId" not in taken.one("send telegram")


def test_a_slow_collector_does_not_hold_the_log(conn, db, answered):
    """While it answers, nothing is open: a checkpoint comes to the end of the log, and empties it."""
    reader = open_connection(db, readonly=True)
    found = []

    def slow(request):
        found.extend(rows(conn, "PRAGMA wal_checkpoint(TRUNCATE)"))
        return httpx.Response(200, content=b"{}")

    async def go():
        work = Export(reader, sender(COLLECTOR, FakeClient(slow)), Cursor(0, 0))
        await work.step(events.latest_id(conn))

    asyncio.run(go())
    reader.close()
    assert found == [(0, 0, 0)]


def test_what_a_collector_did_not_take_is_sent_again_and_no_more_is_read(conn, answered):
    taken = Taken(503, 503)

    async def go():
        work = Export(conn, sender(COLLECTOR, FakeClient(taken)), Cursor(0, 0), most=2)
        for _ in range(2):
            with pytest.raises(NotExported):
                await work.step(events.latest_id(conn))
            assert work.cursor.done == 0
        assert await work.step(events.latest_id(conn))
        return work.cursor

    cursor = asyncio.run(go())
    assert len({request.content for request in taken.requests}) == 1
    assert cursor.done == 2


def test_a_collector_that_is_away_is_asked_again(conn, answered):
    def away(request):
        raise NoAnswer("it closed the connection")

    with pytest.raises(NotExported, match="does not answer"):
        export(conn, away)


@pytest.mark.parametrize(
    "taken", [Taken(400), Taken(body=b'{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}}')]
)
def test_what_a_collector_never_takes_holds_up_nothing(conn, answered, taken):
    assert export(conn, taken).done == events.latest_id(conn)


def test_the_variables_of_opentelemetry_name_the_collector():
    found = Collector.of(
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "https://otel.example:4318/",
            "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20x, x-tenant=a",
        }
    )
    assert found.url == "https://otel.example:4318/v1/traces"
    assert found.headers == {"content-type": "application/json", "authorization": "Bearer x", "x-tenant": "a"}
    own = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t.example/in"}
    assert Collector.of(own).url == "http://t.example/in"
    assert Collector.of(own, "http://127.0.0.1:4318").url == "http://127.0.0.1:4318/v1/traces"


@pytest.mark.parametrize("environment", [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "otel.example:4318"}])
def test_an_address_that_is_none_is_refused(environment):
    with pytest.raises(ConfigInvalid, match="no collector is named"):
        Collector.of(environment)
