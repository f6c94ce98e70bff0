"""Downloads of what people sent: from known hosts only, never more than the limit, and never unpacked."""

import asyncio
import gzip

import httpx
import pytest

from shared.channels import downloads
from shared.core.errors import NotFetched, RetryableError
from shared.runtime.http_client import NoAnswer, RequestNotSent
from tests.fake_client import FakeClient

ORIGINS = ("https://cdn.example",)
URL = "https://cdn.example/files/1?ex=2"


def download(answer, url=URL, limit_bytes=100, **more):
    """The bytes, and the requests that were made."""
    made = []

    def platform(request):
        made.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    got = downloads.download(FakeClient(platform), "Pigeon", url, origins=ORIGINS, limit_bytes=limit_bytes, **more)
    return asyncio.run(got), made


def test_the_bytes_come_as_they_are_and_nothing_is_unpacked():
    packed = gzip.compress(b"x" * 50)
    body, (request,) = download(httpx.Response(200, content=packed), headers={"Authorization": "Bot 1"})
    assert body == packed
    assert request.method == "GET"
    assert str(request.url) == URL
    assert request.headers["Authorization"] == "Bot 1"


@pytest.mark.parametrize(
    "url",
    [
        "http://cdn.example/1",
        "https://cdn.example.evil.example/1",
        "https://cdn.example@evil.example/1",
        "https://me@cdn.example/1",
        "https://cdn.example:8443/1",
        "https://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "//cdn.example/1",
        "https:cdn.example/1",
        "https://cdn.example\n.evil.example/1",
        "https://cdn.\u0435xample/1",
        "https://[::1/1",
        "",
    ],
)
def test_no_other_host_is_asked(url):
    with pytest.raises(NotFetched, match="not one of this platform's hosts"):
        download(AssertionError("asked"), url)


def test_the_case_of_a_host_makes_no_difference():
    assert download(httpx.Response(200, content=b"x"), "HTTPS://CDN.example/1")[0] == b"x"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(status):
    with pytest.raises(NotFetched, match="answered 30"):
        download(httpx.Response(status, headers={"Location": "https://cdn.example/2"}))


@pytest.mark.parametrize("size", [100, 101])
def test_a_body_beyond_the_limit_is_refused(size):
    answer = httpx.Response(200, content=b"x" * size)
    if size == 100:
        assert len(download(answer)[0]) == size
        return
    with pytest.raises(NotFetched, match="it is larger than"):
        download(answer)


def test_more_bytes_than_promised_are_refused():
    answer = httpx.Response(200, content=b"x" * 11)
    with pytest.raises(NotFetched, match="more bytes came than the platform had promised"):
        download(answer, promised_bytes=10)
    assert len(download(answer, promised_bytes=11)[0]) == 11


@pytest.mark.parametrize("status", [204, 400, 401, 403, 404, 410, 416])
def test_a_file_that_is_gone_is_not_fetched(status):
    with pytest.raises(NotFetched, match=str(status)):
        download(httpx.Response(status))


@pytest.mark.parametrize(
    "answer",
    [httpx.Response(429), httpx.Response(500), httpx.Response(503), RequestNotSent("ConnectError"), NoAnswer("x")],
    ids=str,
)
def test_a_platform_in_trouble_may_be_asked_again(answer):
    with pytest.raises(RetryableError):
        download(answer)


def test_no_reason_holds_the_address():
    for answer in (httpx.Response(404), httpx.Response(302), httpx.Response(503), NoAnswer("ReadTimeout")):
        with pytest.raises((NotFetched, RetryableError)) as caught:
            download(answer)
        assert "cdn.example" not in str(caught.value)


@pytest.mark.parametrize(("size", "promised"), [(3, 3), (0, 0), (-1, None), ("3", None), (None, None)])
def test_the_promised_size_is_a_number_of_the_platform(size, promised):
    assert downloads.promised_bytes({"size": size}) == promised


@pytest.mark.parametrize(("size", "shown"), [(20 << 20, "20 MiB"), (1 << 19, "524288 bytes"), (50 << 20, "50 MiB")])
def test_sizes_are_told_as_people_read_them(size, shown):
    assert downloads.megabytes(size) == shown
