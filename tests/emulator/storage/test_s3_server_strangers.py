"""S3 has no password on loopback: it serves programs of this machine, and no pages in its browser."""

import io
from pathlib import Path
from typing import Any

import pytest

from emulator.storage.moto_view import MotoView
from emulator.storage.object_folder import ObjectFolder
from emulator.storage.s3_server import S3Server


class MotoAsked(Exception):
    """moto got the request."""


def moto() -> Any:
    raise MotoAsked


def ask(tmp_path: Path, method: str, path: str, **headers: str) -> tuple[set[str], bool]:
    """The statuses of the response, ours and by moto's way, and whether moto got the request."""
    folder = ObjectFolder(tmp_path / "s3")
    server = S3Server(folder, MotoView(folder, moto))
    environ: dict[str, Any] = {"REQUEST_METHOD": method, "PATH_INFO": path, "HTTP_HOST": "127.0.0.1:9100", **headers}
    environ["wsgi.input"] = io.BytesIO()
    told = set()
    ours = server.answer(environ, lambda _: b"")
    if ours is not None:
        told.add(ours[0])
    try:
        list(server(environ, lambda status, _: told.add(status)))
    except MotoAsked:
        return told, True
    return told, False


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
    assert ask(tmp_path, method, path, **headers) == ({"403 Forbidden"}, False)


def test_a_malformed_host_is_refused_before_moto_gets_it(tmp_path: Path) -> None:
    assert ask(tmp_path, "GET", "/postroom-replica", HTTP_HOST="[::1") == ({"400 Bad Request"}, False)


@pytest.mark.parametrize("host", ["127.0.0.1:9100", "localhost:9100", "[::1]:9100"])
def test_programs_of_this_machine_are_served(tmp_path: Path, host: str) -> None:
    assert ask(tmp_path, "GET", "/postroom-replica", HTTP_HOST=host) == (set(), True)
