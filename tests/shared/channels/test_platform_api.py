"""Calls with files, and downloads."""

import asyncio

import httpx
import pytest

from shared.channels import platform_api
from shared.channels.base import OutgoingFile
from shared.channels.multipart import Form
from shared.channels.telegram.limits import scopes_of
from shared.core.errors import FileTooLarge, NotSent, OutcomeUnknown, PermanentError, RetryableError
from shared.runtime.http_client import NoAnswer, RequestNotSent
from tests.fake_client import FakeClient

SCOPES = scopes_of("telegram", "sendDocument", {"chat_id": "5"})
URL = "http://127.0.0.1:1/bot1:SECRET/sendDocument"


def call(body, platform):
    return asyncio.run(platform_api.call(FakeClient(platform), "Telegram", "POST", URL, body, {}, scopes=SCOPES))


def test_a_form_is_sent_with_its_own_content_type_and_length(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"hello")
    given = OutgoingFile(tmp_path / "a.txt", "a.txt", "text/plain", 5)
    seen = []

    def platform(request):
        seen.append(request)
        return httpx.Response(200, json={"ok": True})

    form = Form({"chat_id": "5"}, {"document": given})
    assert call(form, platform).payload == {"ok": True}
    (request,) = seen
    assert request.headers["content-type"] == form.content_type
    assert int(request.headers["content-length"]) == len(request.content) == form.size
    assert b"hello" in request.content


def test_a_missing_file_costs_no_request(tmp_path):
    gone = OutgoingFile(tmp_path / "gone", "gone.txt", "text/plain", 5)
    with pytest.raises(PermanentError, match=r"'gone\.txt' can't be read"):
        call(Form({}, {"document": gone}), lambda _: pytest.fail("a request was made"))


@pytest.mark.parametrize(("error", "means"), [(RequestNotSent, NotSent), (NoAnswer, OutcomeUnknown)])
def test_a_failed_call_says_whether_it_may_have_been_carried_out(error, means):
    def platform(_):
        raise error("ConnectError")

    with pytest.raises(means, match="Telegram") as caught:
        call({}, platform)
    assert "SECRET" not in str(caught.value)


def fetched(answer, limit=5):
    def platform(request):
        assert request.method == "GET"
        if isinstance(answer, Exception):
            raise answer
        return answer

    return asyncio.run(platform_api.download(FakeClient(platform), "Telegram", URL, {}, limit_bytes=limit))


def test_a_file_up_to_the_limit_is_downloaded():
    assert fetched(httpx.Response(200, content=b"12345")) == b"12345"
    with pytest.raises(FileTooLarge, match="larger than 5 bytes"):
        fetched(httpx.Response(200, content=b"123456"))


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx.Response(302, headers={"location": "http://10.0.0.1/"}), PermanentError),
        (httpx.Response(404), PermanentError),
        (httpx.Response(206, content=b"12"), PermanentError),
        (httpx.Response(429), RetryableError),
        (httpx.Response(502), RetryableError),
        (NoAnswer("ReadTimeout"), RetryableError),
        (RequestNotSent("ConnectError"), NotSent),
    ],
)
def test_a_file_that_is_not_sent_is_an_error_without_the_address(answer, error):
    with pytest.raises(error) as caught:
        fetched(answer)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(("limit", "words"), [(20 << 20, "20 MiB"), (1 << 20, "1 MiB"), (900, "900 bytes")])
def test_a_limit_is_named_for_people(limit, words):
    assert str(FileTooLarge(limit)) == f"the file is larger than {words}"
