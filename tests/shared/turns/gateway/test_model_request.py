"""What the gateway reads of a request, and what it refuses to guess."""

import gzip
import json
import zlib

import pytest

from shared.turns.gateway import model_request
from shared.turns.gateway.model_request import RequestUnreadable

BODY = b'{"model": "m-1", "stream": true}'


def read(body, coding=None):
    return model_request.read([(b"content-encoding", coding)] if coding else [], body)


def test_a_plain_body_stays_byte_for_byte():
    found = read(BODY)
    assert (found.model, found.is_stream, found.body) == ("m-1", True, BODY)


@pytest.mark.parametrize(("coding", "pack"), [(b"gzip", gzip.compress), (b"deflate", zlib.compress)])
def test_a_compressed_body_is_read_and_passed_on_plain(coding, pack):
    assert read(pack(BODY), coding).body == BODY


@pytest.mark.parametrize(
    ("body", "coding", "status"),
    [
        (b"", None, 400),
        (b"[]", None, 400),
        (b"{}", None, 400),
        (b'{"model": 7}', None, 400),
        (b'{"model": ""}', None, 400),
        (json.dumps({"model": "m" * 201}).encode(), None, 400),
        (b'{"model": "cheap", "model": "dear"}', None, 400),
        (b'{"model": "cheap", "mod\\u0065l": "dear"}', None, 400),
        (b'{"model": "m"' + b"[" * 100_000, None, 400),
        (b"\xff", None, 400),
        (BODY, b"zstd", 415),
        (BODY, b"br", 415),
        (BODY, b"gzip, gzip", 415),
        (BODY, b"gzip", 400),
        (gzip.compress(BODY, mtime=0)[:-9], b"gzip", 400),
        (gzip.compress(b" " * (model_request.MOST_BYTES + 1), mtime=0), b"gzip", 413),
    ],
)
def test_what_could_mean_another_model_or_more_than_it_seems_is_refused(body, coding, status):
    with pytest.raises(RequestUnreadable) as refused:
        read(body, coding)
    assert refused.value.status == status


def test_a_model_that_is_talked_about_is_no_second_one():
    body = json.dumps({"model": "m", "messages": [{"model": "other", "text": '{"model": "third"}'}]}).encode()
    assert read(body).model == "m"
