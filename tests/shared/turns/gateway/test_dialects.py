import pytest

from shared.turns.gateway.dialects import ChatDialect, MessagesDialect, ResponsesDialect, with_usage


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
        (
            {"stream": True, "stream_options": {"x": 1, "include_usage": False}},
            {"stream": True, "stream_options": {"x": 1, "include_usage": True}},
        ),
        ({"stream": True, "stream_options": None}, {"stream": True, "stream_options": {"include_usage": True}}),
        ({"stream": True, "stream_options": {"include_usage": True}}, None),
        ({"stream": False}, None),
        ({}, None),
    ],
)
def test_a_streamed_chat_request_asks_for_the_counts(body, asked):
    assert with_usage(body) == asked


@pytest.mark.parametrize(
    ("dialect", "status"), [(MessagesDialect(), 402), (ChatDialect(), 402), (ResponsesDialect(), 429)]
)
def test_a_refusal_has_the_status_that_makes_its_programs_stop(dialect, status):
    assert dialect.refusal_status == status
    assert dialect.refusal("used up")["error"]["message"] == "used up"
    assert dialect.refusal("used up").get("type") == ("error" if isinstance(dialect, MessagesDialect) else None)
