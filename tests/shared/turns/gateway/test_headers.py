"""Headers of requests and answers: no login of the program leaves, and ours does not come back."""

import pytest

from shared.turns.gateway import headers
from shared.turns.gateway.upstreams import ModelUpstream

HOST = ModelUpstream("anthropic", "https://host", ((b"x-api-key", b"ours"),))
PLAN = HOST._replace(auth=((b"authorization", b"Bearer ours"),), beta=b"oauth")


@pytest.mark.parametrize("host", [HOST, PLAN])
def test_every_login_of_a_program_is_swapped_for_ours(host):
    given = [
        (b"x-api-key", b"token"),
        (b"authorization", b"Bearer token"),
        (b"authorization", b"token"),
        (b"api-key", b"token"),
        (b"x-goog-api-key", b"token"),
        (b"cookie", b"token"),
        (b"proxy-authorization", b"token"),
    ]
    sent = headers.sent(given, host)
    assert "token" not in str(sent)
    assert [value for name, value in sent if name in (b"x-api-key", b"authorization")] == [host.auth[0][1]]


def test_what_is_for_the_next_hop_only_is_not_passed_on():
    given = [
        (b"connection", b"keep-alive, X-Secret"),
        (b"x-secret", b"1"),
        (b"te", b"trailers"),
        (b"transfer-encoding", b"chunked"),
        (b"host", b"elsewhere"),
        (b"x-forwarded-for", b"10.0.0.1"),
        (b"forwarded", b"for=10.0.0.1"),
        (b"content-encoding", b"gzip"),
        (b"anthropic-version", b"2023-06-01"),
        (b"session-id", b"s"),
    ]
    sent = dict(headers.sent(given, HOST))
    assert sent == {
        b"anthropic-version": b"2023-06-01",
        b"session-id": b"s",
        b"accept-encoding": b"identity",
        b"x-api-key": b"ours",
    }


def test_an_answer_keeps_its_limits_and_loses_its_framing():
    given = [
        (b"Connection", b"close, X-Hop"),
        (b"X-Hop", b"1"),
        (b"Set-Cookie", b"c"),
        (b"Content-Length", b"7"),
        (b"Retry-After", b"3600"),
        (b"Anthropic-Ratelimit-Unified-Status", b"allowed"),
        (b"Content-Type", b"text/event-stream"),
    ]
    assert headers.returned(given) == [
        (b"anthropic-ratelimit-unified-status", b"allowed"),
        (b"content-type", b"text/event-stream"),
    ]


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ({"retry-after": "2"}, [(b"retry-after", b"2")]),
        ({"retry-after-ms": "1500"}, [(b"retry-after", b"1.5")]),
        ({"retry-after": "3600"}, []),
        ({"retry-after": "Fri, 15 Jan 2027 09:00:00 GMT"}, []),
        ({}, []),
    ],
)
def test_a_long_wait_is_not_passed_on(given, passed):
    assert headers.retry_after(given, now_ms=1_800_000_000_000) == passed


@pytest.mark.parametrize(
    ("given", "token"),
    [
        ([(b"x-api-key", b"t")], "t"),
        ([(b"authorization", b"Bearer t")], "t"),
        ([(b"x-api-key", b""), (b"authorization", b"Bearer t")], "t"),
        ([], ""),
        ([(b"x-api-key", b"\xff")], "\xff"),
    ],
)
def test_the_token_stands_in_either_header(given, token):
    assert headers.token(given) == token
