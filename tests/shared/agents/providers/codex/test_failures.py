"""Errors of codex in our words."""

import json
from pathlib import Path

import pytest

from shared.agents.base import Failed
from shared.agents.providers.codex import failures
from shared.core.text import redaction

PROTOCOL = json.loads(Path(__file__).with_name("protocol.json").read_text())
WORDS = [word for each in PROTOCOL["CodexErrorInfo"]["anyOf"] for word in each.get("enum", each.get("required", []))]
UNCLEAR = {  # errors of the one turn, without a word of their own
    "activeTurnNotSteerable", "badRequest", "cyberPolicy", "inferenceHookDenied", "misalignmentPolicyViolation",
    "other", "sandboxError", "threadRollbackFailed",
}  # fmt: skip


@pytest.mark.parametrize("word", WORDS)
def test_each_word_of_the_protocol_has_a_code(word):
    code = failures.of_turn({"message": "no", "codexErrorInfo": word}).code
    assert (code == "error") is (word in UNCLEAR)


@pytest.mark.parametrize(
    ("info", "code"),
    [
        ("usageLimitExceeded", "quota"),
        ("unauthorized", "auth"),
        ("contextWindowExceeded", "context_too_long"),
        ({"httpConnectionFailed": {"httpStatusCode": None}}, "network"),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, "rate_limited"),
        ({"responseStreamConnectionFailed": {"httpStatusCode": 503}}, "overloaded"),
        ({"responseStreamDisconnected": {"httpStatusCode": 403}}, "auth"),
        ({"somethingNew": {}}, "error"),
        (None, "error"),
        (7, "error"),
    ],
)
def test_a_typed_error_becomes_its_code(info, code):
    assert failures.of_turn({"message": "no", "codexErrorInfo": info}).code == code


def test_a_request_that_is_refused_for_itself_is_not_made_again():
    assert not failures.of_turn({"message": "no", "codexErrorInfo": "badRequest"}).retryable
    assert not failures.of_text('{"error": {"message": "bad"}}').retryable
    assert failures.of_turn({"message": "no", "codexErrorInfo": "other"}).retryable


def test_the_instant_of_a_plan_is_told_with_the_quota_only():
    assert failures.of_turn({"message": "no", "codexErrorInfo": "usageLimitExceeded"}, 9000).until_ms == 9000
    assert failures.of_turn({"message": "no", "codexErrorInfo": "unauthorized"}, 9000).until_ms is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("unexpected status 401 Unauthorized: no", "auth"),
        ("exceeded retry limit, last status: 429 Too Many Requests", "rate_limited"),
        ("unexpected status 529 <unknown status code>", "overloaded"),
        ("Quota exceeded. Check your plan and billing details.", "quota"),
        ("stream disconnected before completion: closed", "malformed"),
        ("currently experiencing high demand", "overloaded"),
        ("no rollout found for thread id 01a2", "session_lost"),
        ("thread 01a2 already has an active writer", "session_busy"),
        ("something new", "error"),
    ],
)
def test_a_text_becomes_its_code(text, code):
    assert failures.of_text(text).code == code


def test_a_crash_is_explained_by_what_the_program_said_and_a_limit_is_not():
    said = "the program ended with code 1: no rollout found for thread id 1"
    assert failures.of_ending(Failed(said, code="crashed")).code == "session_lost"
    assert failures.of_ending(Failed(said, code="idle_timeout")).code == "idle_timeout"
    assert failures.of_ending(Failed("it ended with code 7", code="crashed")).code == "crashed"


def test_a_secret_in_an_error_is_not_repeated():
    redaction.register_brief("postroom-abcdefghijklmnop")
    failed = failures.of_text("Incorrect API key provided: postroom-abcdefghijklmnop")
    assert "abcdefghijklmnop" not in failed.reason
