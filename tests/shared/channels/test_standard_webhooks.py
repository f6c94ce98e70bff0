"""The signatures of Standard Webhooks, against the vector that their reference library made."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.channels import standard_webhooks
from shared.core.errors import SignatureInvalid

SECRET = "whsec_eGW35rnSQddE0zDuw7Og/k+dNq912WKR"
BODY = b'{"type":"contact.created","data":{"id":"1"}}'
SIGNATURE = "v1,/yXWDWeGBaC7EB+DtTrjZcpNmTPiFoRpRG1+6cTYmpA="
NOW = 1_795_168_000_000
HEADERS = {"webhook-id": "msg_test1", "webhook-timestamp": "1795168000", "webhook-signature": SIGNATURE}


def test_signs_as_the_reference_library():
    assert standard_webhooks.sign(SECRET, "msg_test1", BODY, now_ms=NOW) == HEADERS


def test_one_of_several_signatures_has_to_match():
    headers = {**HEADERS, "webhook-signature": f"v1,AAAA v1a,{SIGNATURE} {SIGNATURE}"}
    assert standard_webhooks.verify(SECRET, headers, BODY, now_ms=NOW) == "msg_test1"


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("webhook-id", "msg_test2"),
        ("webhook-id", "msg test1"),
        ("webhook-id", None),
        ("webhook-timestamp", "1795168001"),
        ("webhook-timestamp", "\u0661795168000"),
        ("webhook-timestamp", "-1"),
        ("webhook-timestamp", None),
        ("webhook-signature", SIGNATURE.replace("v1,", "v2,")),
        ("webhook-signature", SIGNATURE.removeprefix("v1,")),
        ("webhook-signature", "v1,AAAA"),
        ("webhook-signature", "v1,\u00e9"),
        ("webhook-signature", ""),
        ("webhook-signature", None),
    ],
)
def test_another_header_is_refused(header, value):
    headers = {name: text for name, text in {**HEADERS, header: value}.items() if text is not None}
    with pytest.raises(SignatureInvalid):
        standard_webhooks.verify(SECRET, headers, BODY, now_ms=NOW)


def test_another_secret_is_refused():
    with pytest.raises(SignatureInvalid, match="does not match"):
        standard_webhooks.verify(SECRET.replace("R", "S"), HEADERS, BODY, now_ms=NOW)


@given(body=st.binary().filter(lambda body: body != BODY) | st.just(json.dumps(json.loads(BODY)).encode()))
def test_another_body_is_refused(body):
    with pytest.raises(SignatureInvalid):
        standard_webhooks.verify(SECRET, HEADERS, body, now_ms=NOW)


@pytest.mark.parametrize(
    ("drift_ms", "is_fresh"), [(300_000, True), (300_001, False), (-300_000, True), (-300_001, False)]
)
def test_a_captured_request_cannot_be_replayed_later(drift_ms, is_fresh):
    if is_fresh:
        assert standard_webhooks.verify(SECRET, HEADERS, BODY, now_ms=NOW + drift_ms)
    else:
        with pytest.raises(SignatureInvalid, match="clock"):
            standard_webhooks.verify(SECRET, HEADERS, BODY, now_ms=NOW + drift_ms)
