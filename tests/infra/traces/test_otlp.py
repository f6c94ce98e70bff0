"""OpenTelemetry's own schema takes what is sent, and a message's trace reads as its story."""

import pytest

from infra.traces.span import trace_id
from shared.db.engine.connection import transaction
from shared.db.queue import fetched_responses, messages
from shared.queue import turns
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from tests.clients.harness import read_by
from tests.infra.traces.kit import Taken, export
from tests.support import NOW, put, take

pytestmark = pytest.mark.clients
RETRY = RetryPolicy(5, 1000, 1000, 0.0)


def test_a_collector_takes_a_trace_that_is_the_story_of_a_message(conn):
    """Two messages: a turn that fails, one that answers both, and an answer that arrives."""
    put(conn, given_id="first")
    put(conn, given_id="second")
    with transaction(conn):
        messages.announce(conn)
    claim = take(conn, now_ms=NOW + 1000)
    with transaction(conn):
        turns.fail(conn, claim, Failure("away", retryable=True), RETRY, now_ms=NOW + 3000)
    claim = take(conn, token="turn_b", now_ms=NOW + 9000)
    with transaction(conn):
        turns.settle(conn, claim, [TurnReply("an answer", claim.asked[0])], None, now_ms=NOW + 9500)
        fetched_responses.ack(conn, 1, adapters=(), now_ms=NOW + 9900)
    taken = Taken()
    export(conn, taken)
    spans = read_by("otlp_reader.py", "\n".join(request.content.decode() for request in taken.requests))

    mine = [each for each in spans if each["trace"] == trace_id("first")]
    (root,) = (each for each in mine if not each["parent"])
    assert all(each["parent"] in ("", root["id"]) for each in mine)
    assert all(NOW * 10**6 <= each["start"] <= each["end"] for each in mine)
    story = sorted((each["start"] // 10**6 - NOW, each["end"] // 10**6 - NOW, each["name"]) for each in mine)
    assert story == [
        (0, 0, "receive telegram"),
        (0, 1000, "wait"),
        (0, 9500, "process telegram"),
        (1000, 3000, "invoke_agent assistant"),
        (3500, 9000, "wait"),
        (9000, 9500, "invoke_agent assistant"),
        (9500, 9900, "send telegram"),
    ]
    assert [each["isFailed"] for each in mine if each["name"].startswith("invoke")] == [True, False]
    (turn, *_) = (each for each in mine if each["name"].startswith("invoke"))
    assert turn["links"] == [trace_id("second")]
    assert {each["name"]: each["kind"] for each in mine} == {
        "receive telegram": "SPAN_KIND_CONSUMER",
        "wait": "SPAN_KIND_INTERNAL",
        "process telegram": "SPAN_KIND_CONSUMER",
        "invoke_agent assistant": "SPAN_KIND_INTERNAL",
        "send telegram": "SPAN_KIND_PRODUCER",
    }
