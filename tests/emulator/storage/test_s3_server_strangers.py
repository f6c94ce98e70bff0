"""S3 has no password on loopback: it serves programs of this machine, and no pages in its browser."""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from emulator.storage.s3_server import ObjectFolder, WriteThrough


def ask(tmp_path: Path, method: str, path: str, **headers: str) -> tuple[str, bool]:
    """The status of the response, and whether moto got the request."""
    asked: list[str] = []
    told: list[str] = []

    def moto(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        asked.append(environ["PATH_INFO"])
        start_response("200 OK", [])
        return [b""]

    application = WriteThrough(moto, SimpleNamespace(buckets={}), ObjectFolder(tmp_path / "s3"))
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "HTTP_HOST": "127.0.0.1:9100", **headers}
    list(application(environ, lambda status, _: told.append(status)))
    return told[0], bool(asked)


STRANGERS = {
    "a page elsewhere that writes": ("POST", "/postroom-replica", {"HTTP_ORIGIN": "https://evil.example"}),
    "a page elsewhere that reads": ("GET", "/postroom-replica", {"HTTP_ORIGIN": "https://evil.example"}),
    "a page whose name was made to point here": ("GET", "/postroom-replica", {"HTTP_HOST": "evil.example:9100"}),
    "a page without an origin": ("POST", "/postroom-replica", {"HTTP_ORIGIN": "null"}),
    "somebody behind a proxy": ("GET", "/postroom-replica", {"HTTP_X_FORWARDED_FOR": "203.0.113.7"}),
    "moto's own switch that forgets everything": ("POST", "/moto-api/reset", {}),
    "the same with another beginning": ("POST", "//moto-api/reset", {}),
}


@pytest.mark.parametrize(("method", "path", "headers"), STRANGERS.values(), ids=STRANGERS)
def test_foreign_requests_are_refused_before_moto_gets_them(
    tmp_path: Path, method: str, path: str, headers: dict[str, str]
) -> None:
    assert ask(tmp_path, method, path, **headers) == ("403 Forbidden", False)


def test_a_malformed_host_is_refused_before_moto_gets_it(tmp_path: Path) -> None:
    assert ask(tmp_path, "GET", "/postroom-replica", HTTP_HOST="[::1") == ("400 Bad Request", False)


@pytest.mark.parametrize("host", ["127.0.0.1:9100", "localhost:9100", "[::1]:9100"])
def test_programs_of_this_machine_are_served(tmp_path: Path, host: str) -> None:
    assert ask(tmp_path, "GET", "/postroom-replica", HTTP_HOST=host) == ("200 OK", True)


@pytest.mark.parametrize("bucket", ["..", ".", "", "a/b", "a..b"])
def test_no_bucket_name_leaves_the_folder(tmp_path: Path, bucket: str) -> None:
    beside = tmp_path / "postroom.db"
    beside.write_bytes(b"rows")
    folder = ObjectFolder(tmp_path / "s3")
    with pytest.raises(ValueError, match="bucket"):
        folder.remove_bucket(bucket)
    assert beside.read_bytes() == b"rows"


@pytest.mark.parametrize(
    ("headers", "meet"), [({"HTTP_IF_NONE_MATCH": "*"}, False), ({"HTTP_IF_MATCH": "x"}, False), ({}, True)]
)
def test_conditional_writes_run_one_at_a_time(tmp_path: Path, headers: dict[str, str], meet: bool) -> None:
    """Otherwise both conditions could hold, and both clients would take the lease."""
    together = threading.Barrier(2)
    met: list[bool] = []

    def moto(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        try:
            together.wait(60 if meet else 0.3)
            met.append(True)
        except threading.BrokenBarrierError:
            met.append(False)
        start_response("412 Precondition Failed", [])
        return [b""]

    application = WriteThrough(moto, SimpleNamespace(buckets={}), ObjectFolder(tmp_path / "s3"))
    environ = {"REQUEST_METHOD": "PUT", "PATH_INFO": "/b/lease.json", "HTTP_HOST": "127.0.0.1:9100", **headers}
    writers = [threading.Thread(target=application, args=(environ, lambda *_: None)) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert met == [meet, meet]
