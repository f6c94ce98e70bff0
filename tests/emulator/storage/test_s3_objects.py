"""S3's answers are those that moto gives; and an object is on disk when its answer goes out."""

import http.client
import json
import re
import socket
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from emulator.storage.s3_connections import SILENT_S
from tests.emulator.harness import fetch
from tests.emulator.storage.test_s3_server import SIGNED, s3_server

FOR_MOTO = {"x-amz-request-payer": "requester"}  # a header that only moto knows, and that changes nothing
_OF_THE_SERVER = ("connection", "server", "access-control-allow-origin")
_OF_THE_INSTANT = ("date", "last-modified", "x-amzn-requestid", "x-amz-request-id")


@pytest.mark.e2e
def test_a_put_stores_what_moto_would(tmp_path: Path) -> None:
    """Also for a reader of the object's head, which a restore to an instant is."""
    stamped = SIGNED | {"Content-Type": "text/plain", "x-amz-meta-litestream-timestamp": "2026-11-21T13:00:00Z"}
    through_moto = stamped | FOR_MOTO
    with s3_server(tmp_path) as port:
        told = [_ask(port, "PUT", path, b"body", headers) for path, headers in
                (("/plain", stamped), ("/moto", through_moto))]  # fmt: skip
        before = [_ask(port, "HEAD", path, None, SIGNED) for path in ("/plain", "/moto")]
    with s3_server(tmp_path) as port:
        after = [_ask(port, "HEAD", path, None, SIGNED) for path in ("/plain", "/moto")]

    assert told[0]["etag"] == told[1]["etag"] == '"841a2d689ad86bd1611447453c22c6fc"'
    assert before[0]["x-amz-meta-litestream-timestamp"] == "2026-11-21T13:00:00Z"
    assert before[0] == before[1]
    assert after[0] == after[1]


@pytest.mark.e2e
@pytest.mark.parametrize("size", [0, 4, 2_000_000])
def test_a_get_answers_what_moto_would(tmp_path: Path, size: int) -> None:
    stamped = SIGNED | {"Content-Type": "text/plain", "x-amz-meta-litestream-timestamp": "2026-11-21T13:00:00Z"}
    with s3_server(tmp_path) as port:
        _ask(port, "PUT", "/key", b"x" * size, stamped)
        _ask(port, "PUT", "/unstamped", b"x" * size, SIGNED)
        for path in ("/key", "/unstamped"):
            ours, motos = (_ask(port, "GET", path, None, SIGNED | more) for more in ({}, FOR_MOTO))
            assert ours == motos
        assert ours["content-length"] == str(size)


ALIKE = {
    "the head": ("HEAD", "/key", {}),
    "all bytes from the first": ("GET", "/key", {"Range": "bytes=0-"}),
    "some bytes": ("GET", "/key", {"Range": "bytes=1-2"}),
    "bytes beyond the end": ("GET", "/key", {"Range": "bytes=2-99"}),
    "only bytes beyond the end": ("GET", "/key", {"Range": "bytes=4-5"}),
    "an object that is missing": ("GET", "/missing", {}),
    "the head of one": ("HEAD", "/missing", {}),
    "one in a bucket that is missing": ("GET", "/../other/key", {}),
    "a deletion of what is missing": ("DELETE", "/missing", {}),
    "a PUT where there is one": ("PUT", "/key", {"If-None-Match": "*"}),
    "a PUT in place of another version": ("PUT", "/key", {"If-Match": '"0"'}),
    "a PUT in place of nothing": ("PUT", "/missing", {"If-Match": '"0"'}),
}


@pytest.mark.e2e
def test_every_operation_is_answered_as_by_moto(tmp_path: Path) -> None:
    with s3_server(tmp_path) as port:
        _ask(port, "PUT", "/key", b"body", SIGNED)
        for what, (method, path, headers) in ALIKE.items():
            body = b"new" if method == "PUT" else None
            told = [_tell(port, method, path, body, SIGNED | headers | more) for more in ({}, FOR_MOTO)]
            assert told[0] == told[1], what
            assert told[0][0] != 500, what
        assert fetch(f"http://127.0.0.1:{port}/postroom-replica/key", headers=SIGNED) == (200, b"body")


@pytest.mark.e2e
def test_what_moto_stored_is_read_through_moto_while_it_knows_more_of_it(tmp_path: Path) -> None:
    with s3_server(tmp_path) as port:
        _ask(port, "PUT", "/key", b"one", SIGNED | {"x-amz-tagging": "a=b"})
        assert _ask(port, "GET", "/key", None, SIGNED)["x-amz-tagging-count"] == "1"
        _ask(port, "PUT", "/key", b"two", SIGNED)
        assert "x-amz-tagging-count" not in _ask(port, "GET", "/key", None, SIGNED)


@pytest.mark.e2e
def test_moto_and_we_see_the_same_objects_after_each_change(tmp_path: Path) -> None:
    with s3_server(tmp_path) as port:
        url = f"http://127.0.0.1:{port}/postroom-replica"
        for key, more in (("ours", {}), ("motos", FOR_MOTO)):
            for body in (b"first", b"second"):
                _ask(port, "PUT", f"/{key}", body, SIGNED | more)
                for reads in ({}, FOR_MOTO):
                    assert fetch(f"{url}/{key}", headers=SIGNED | reads) == (200, body), (key, reads)
        for key, more in (("ours", FOR_MOTO), ("motos", {})):
            assert fetch(f"{url}/{key}", method="DELETE", headers=SIGNED | more)[0] == 204
            for reads in ({}, FOR_MOTO):
                assert fetch(f"{url}/{key}", headers=SIGNED | reads)[0] == 404, (key, reads)
        assert list((tmp_path / "postroom-replica").iterdir()) == []


@pytest.mark.e2e
def test_moto_sees_downloads_from_a_bucket_with_a_policy(tmp_path: Path) -> None:
    resource = "arn:aws:s3:::postroom-replica/*"
    statement = {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": resource}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]}).encode()
    with s3_server(tmp_path) as port:
        url = f"http://127.0.0.1:{port}/postroom-replica"
        _ask(port, "PUT", "/key", b"one", SIGNED)
        assert fetch(f"{url}?policy", method="PUT", body=policy, headers=SIGNED)[0] < 300
        assert fetch(f"{url}/key", headers=SIGNED)[0] == 403


@pytest.mark.e2e
def test_a_line_break_in_metadata_is_no_header(tmp_path: Path) -> None:
    """As an upload by a form can have."""
    parts = {"key": "key", "x-amz-meta-a": "v\r\nX-Injected: yes", 'file"; filename="f': "body"}
    head = '--X\r\nContent-Disposition: form-data; name="'
    form = "".join(f'{head}{name}"\r\n\r\n{text}\r\n' for name, text in parts.items())
    with s3_server(tmp_path) as port:
        url = f"http://127.0.0.1:{port}/postroom-replica"
        headers = {"Content-Type": "multipart/form-data; boundary=X"}
        assert fetch(url, method="POST", body=f"{form}--X--\r\n".encode(), headers=headers)[0] == 204
        assert fetch(f"{url}/key", headers=SIGNED)[0] == 500  # from werkzeug, which sends no such header


@pytest.mark.e2e
def test_reads_share_a_connection_with_writes(tmp_path: Path) -> None:
    with s3_server(tmp_path) as port, closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as client:
        client.connect()
        connection = client.sock

        def ask(method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
            client.request(method, f"/postroom-replica{path}", body=body, headers=SIGNED)
            answer = client.getresponse()
            return answer.status, answer.read()

        assert ask("PUT", "/a", b"one") == (200, b"")
        assert ask("GET", "/a") == (200, b"one")
        assert re.findall(rb"<Key>(.*?)</Key>", ask("GET", "?list-type=2")[1]) == [b"a"]
        assert ask("PUT", "/a", b"two") == (200, b"")
        assert ask("GET", "/a?x-id=GetObject") == (200, b"two")
        assert client.sock is connection
        assert ask("GET", "/b")[0] == 404
        assert ask("GET", "/a") == (200, b"two")


@pytest.mark.e2e
def test_an_upload_that_breaks_off_changes_nothing(tmp_path: Path) -> None:
    """As when Litestream is killed in the middle: half a file of the replica would be in its way for ever."""
    with s3_server(tmp_path) as port:
        _ask(port, "PUT", "/old", b"whole", SIGNED)
        answers = [_break_off(port, path) for path in ("/old", "/new")]
        found = [fetch(f"http://127.0.0.1:{port}/postroom-replica{path}", headers=SIGNED) for path in ("/old", "/new")]

    assert [answer.split()[1] for answer in answers] == [b"400", b"400"]
    assert found[0] == (200, b"whole")
    assert found[1][0] == 404


@pytest.mark.e2e
def test_plain_puts_over_one_connection_are_each_on_disk_when_they_are_answered(tmp_path: Path) -> None:
    """A last one that breaks off is not; and the server's end does not wait for the client's."""
    with ExitStack() as stack:
        with s3_server(tmp_path) as port:
            client = stack.enter_context(closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)))
            client.connect()
            connection = client.sock
            for number in range(5):
                client.request("PUT", f"/postroom-replica/{number}", body=b"x" * number * 4000, headers=SIGNED)
                answer = client.getresponse()
                assert (answer.status, answer.getheader("Connection"), answer.read()) == (200, None, b"")
                assert (tmp_path / "postroom-replica" / f"{number}.object").read_bytes().endswith(b"x" * number * 4000)
            assert client.sock is connection
            broken = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            whole, half = _put(port, "/whole", 4) + b"body", _put(port, "/half", 100) + b"x" * 40
            broken.sendall(whole + half)
            broken.shutdown(socket.SHUT_WR)
            statuses = re.findall(rb"HTTP/1.1 (\d+)", b"".join(iter(lambda: broken.recv(4096), b"")))
            stop_at_s = time.monotonic()
        assert time.monotonic() - stop_at_s < SILENT_S / 2

    assert statuses == [b"200", b"400"]
    kept = sorted(path.name for path in (tmp_path / "postroom-replica").iterdir())
    assert kept == [*(f"{number}.object" for number in range(5)), "whole.object"]


@pytest.mark.e2e
def test_a_client_that_waits_for_our_consent_gets_it_before_its_body(tmp_path: Path) -> None:
    """So Litestream sends a body of 2 MB and more."""
    with (
        s3_server(tmp_path) as port,
        socket.create_connection(("127.0.0.1", port), timeout=60) as connection,
    ):
        for _ in range(2):
            connection.sendall(_put(port, "/key", 4, {"Expect": "100-continue"}))
            assert connection.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
            connection.sendall(b"body")
            assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")


def _put(port: int, path: str, length: int, more: dict[str, str] | None = None) -> bytes:
    """The head of a PUT."""
    lines = {"Host": f"127.0.0.1:{port}", "Content-Length": str(length), **SIGNED, **(more or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"PUT /postroom-replica{path} HTTP/1.1\r\n{head}\r\n".encode()


def _break_off(port: int, path: str) -> bytes:
    """Send 40 bytes of 100; the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(_put(port, path, 100) + b"x" * 40)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(4096), b""))


def _ask(port: int, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> dict[str, str]:
    """The headers of the answer, as far as they are of the object."""
    status, found, _ = _tell(port, method, path, body, headers)
    assert status == 200
    return found


def _tell(
    port: int, method: str, path: str, body: bytes | None, headers: dict[str, str]
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers as above, and the body; of a refusal its code, of no content nothing."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, f"/postroom-replica{path}", body=body, headers=headers)
        answer = connection.getresponse()
        told = answer.read()
        found = {name.lower(): value for name, value in answer.getheaders()}
        if answer.status >= 400 or answer.status == 204:
            return answer.status, {}, b"".join(re.findall(rb"<Code>.*</Code>", told))
        return answer.status, {n: v for n, v in found.items() if n not in _OF_THE_SERVER + _OF_THE_INSTANT}, told
    finally:
        connection.close()
