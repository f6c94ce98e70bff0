"""What the errors of model hosts mean, by their status, headers and words."""

import pytest

from shared.turns.gateway import host_errors

NOW = 1_800_000_000_000  # 2027-01-15T08:00:00Z
UNIFIED = {"anthropic-ratelimit-unified-status": "rejected", "anthropic-ratelimit-unified-reset": "1800003600"}


def error(word, **more):
    return {"error": {"type": word, **more}}


@pytest.mark.parametrize(
    ("status", "headers", "body", "reason", "until_s"),
    [
        (401, {}, {}, "login_refused", None),
        (403, {}, error("permission_error"), "login_refused", None),
        (402, {}, error("billing_error"), "quota", None),
        (404, {}, error("not_found_error"), "model_not_found", None),
        (429, {"retry-after": "7"}, {}, "rate_limited", 7),
        (429, UNIFIED, error("rate_limit_error"), "quota", 3600),
        (429, {}, error("insufficient_quota", code="insufficient_quota"), "quota", None),
        (429, {}, error("usage_limit_reached", resets_at=1_800_000_060), "quota", 60),
        (400, {}, error("x", message="Your credit balance is too low to access the API"), "quota", None),
        (400, {}, error("invalid_request_error", message="max_tokens is missing"), None, None),
        (413, {}, error("request_too_large"), None, None),
        (500, {"retry-after": "soon"}, {}, "overloaded", None),
        (529, {"retry-after": "3600"}, error("overloaded_error"), "overloaded", 3600),
        (503, {"retry-after": "Fri, 15 Jan 2027 08:02:00 GMT"}, {}, "overloaded", 120),
    ],
)
def test_an_answer_is_a_reason_and_an_instant(status, headers, body, reason, until_s):
    found = host_errors.of_answer("openai", status, headers, body, now_ms=NOW)
    if reason is None:
        assert found is None
    else:
        assert (found.reason, found.until_ms) == (reason, until_s and NOW + until_s * 1000)
        assert found.sentence.startswith(f"openai answered {status}: ")


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, "overloaded"),
        ({"code": "rate_limit_exceeded"}, "rate_limited"),
        ({"code": "insufficient_quota", "type": "server_error"}, "quota"),
        ({"type": "invalid_request_error"}, None),
        ({"code": 7, "type": None}, None),
    ],
)
def test_an_error_in_a_stream_is_a_reason_too(event, reason):
    found = host_errors.of_event("openai", event, now_ms=NOW)
    assert (found.reason if found else None) == reason


@pytest.mark.parametrize(
    ("headers", "waits_s"),
    [
        ({"retry-after": "2"}, 2),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "x", "retry-after": "2"}, 2),
        ({"retry-after": "Fri, 15 Jan 2027 08:00:10 GMT"}, 10),
        ({"retry-after": "Fri, 15 Jan 2027 07:00:00 GMT"}, 0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e300"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_a_wait_is_seconds_milliseconds_or_a_date(headers, waits_s):
    assert host_errors.retry_after_s(headers, now_ms=NOW) == waits_s


def test_an_instant_of_a_host_is_of_the_real_clock_and_a_wait_stays_as_long(day_ahead):
    later = NOW + day_ahead
    assert host_errors.retry_after_s({"retry-after": "Fri, 15 Jan 2027 08:00:10 GMT"}, now_ms=later) == pytest.approx(
        10, abs=1
    )
    assert abs(host_errors.of_answer("anthropic", 429, UNIFIED, {}, now_ms=later).until_ms - later - 3_600_000) < 1000


@pytest.mark.parametrize("reset", ["nonsense", "inf", "1", "9" * 30])
def test_a_reset_that_makes_no_sense_is_no_instant(reset):
    headers = {**UNIFIED, "anthropic-ratelimit-unified-reset": reset}
    assert host_errors.of_answer("anthropic", 429, headers, {}, now_ms=NOW).until_ms is None
