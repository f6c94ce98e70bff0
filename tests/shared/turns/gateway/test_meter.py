"""Tokens of recorded answers, streamed and whole."""

from pathlib import Path

import pytest

from shared.db.spending.usage import Tokens
from shared.turns.gateway.dialects import ChatDialect, MessagesDialect, ResponsesDialect
from shared.turns.gateway.meter import BodyMeter, StreamMeter

EVENTS = Path(__file__).parents[3] / "events/models"
DIALECTS = {"messages": MessagesDialect(), "chat": ChatDialect(), "responses": ResponsesDialect()}
COUNTED = {
    "messages": Tokens(12, 57, 200, 30),
    "chat": Tokens(12, 57, 200),
    "responses": Tokens(12, 57, 200),
}


def read(name, stream, size=None):
    meter = StreamMeter(DIALECTS[name], request_bytes=4000)
    for at in range(0, len(stream), size or len(stream) or 1):
        meter.feed(stream[at : at + (size or len(stream))])
    meter.end()
    return meter


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("size", [1, 7, 100, None])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_a_stream_is_counted_however_it_is_cut(name, size, line_end):
    stream = (EVENTS / f"{name}.sse").read_bytes().replace(b"\n", line_end)
    meter = read(name, stream, size)
    assert (meter.is_complete, meter.tokens()) == (True, COUNTED[name])


@pytest.mark.parametrize("name", DIALECTS)
def test_a_stream_without_its_last_event_is_not_complete_and_costs_something(name):
    *kept, _last = (EVENTS / f"{name}.sse").read_bytes().strip().split(b"\n\n")
    meter = read(name, b"\n\n".join(kept))
    assert not meter.is_complete, "words of the text are no event"
    assert meter.tokens().output >= 1
    assert meter.tokens().total >= 12


@pytest.mark.parametrize(("name", "given"), [("messages", 12), ("chat", 1000), ("responses", 1000)])
def test_what_a_cut_stream_did_not_say_is_estimated(name, given):
    first, *_ = (EVENTS / f"{name}.sse").read_bytes().split(b"\n\n")
    assert read(name, first).tokens()[:2] == (given, 1)


@pytest.mark.parametrize("name", DIALECTS)
def test_a_last_line_without_a_line_break_is_read(name):
    assert read(name, (EVENTS / f"{name}.sse").read_bytes().strip()).is_complete


@pytest.mark.parametrize(
    ("name", "event"),
    [
        ("messages", b'data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'),
        ("responses", b'data: {"type":"response.failed","response":{"usage":null,"error":{"code":"x"}}}\n\n'),
        ("responses", b'data: {"type":"response.incomplete","response":{"usage":{"input_tokens":1}}}\n\n'),
    ],
)
def test_an_error_is_an_end_too(name, event):
    assert read(name, event).is_complete


@pytest.mark.parametrize("name", DIALECTS)
def test_a_whole_body_is_counted(name):
    meter = BodyMeter(DIALECTS[name], request_bytes=4000)
    body = (EVENTS / f"{name}.json").read_bytes()
    meter.feed(body[:50])
    meter.feed(body[50:])
    meter.end()
    assert (meter.is_complete, meter.tokens()) == (True, COUNTED[name])


def test_a_body_without_counts_is_estimated_by_its_size():
    meter = BodyMeter(ChatDialect(), request_bytes=4000)
    meter.feed(b"x" * 400)
    assert meter.tokens() == Tokens(1000, 100)


@pytest.mark.parametrize("wrong", [b"-5", b"1e3", b'"7"', b"true", b"null", b"1" + b"0" * 30, b"[1]"])
def test_a_count_that_is_nonsense_is_zero(wrong):
    meter = read("messages", b'data: {"type":"message_delta","usage":{"input_tokens":3,"output_tokens":%s}}\n' % wrong)
    assert meter.tokens().input == 3
    assert meter.tokens().output == 1, "one event was seen"


@pytest.mark.parametrize("line", [b"data: {", b'data: "usage"', b'data: {"usage":5}', b"data: " + b"[" * 100_000])
def test_a_line_that_is_no_event_is_passed_over(line):
    meter = read("responses", line + b'"usage" "error"\n')
    assert not meter.is_complete
