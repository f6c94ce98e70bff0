"""An object that comes in parts is the one that moto would make of them."""

import http.client
import re
from pathlib import Path

import pytest

from tests.emulator.storage.test_s3_server import SIGNED, s3_server

FOR_MOTO = {"x-amz-request-payer": "requester"}  # a header that only moto knows, and that changes nothing
STAMPED = {"Content-Type": "text/plain", "x-amz-meta-litestream-timestamp": "2026-11-21T13:00:00Z"}
BIG, REST = b"a" * (5 * 1024 * 1024), b"the rest"

pytestmark = pytest.mark.e2e


class Client:
    """Sends requests about one object to the server at *port*, with *more* headers in each."""

    def __init__(self, port: int, key: str, more: dict[str, str]) -> None:
        self._port = port
        self._path = f"/postroom-replica/{key}"
        self._more = SIGNED | more

    def ask(
        self, method: str, query: str = "", body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        connection.request(method, f"{self._path}?{query}".rstrip("?"), body, self._more | (headers or {}))
        answer = connection.getresponse()
        found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        connection.close()
        return found

    def begin(self) -> str:
        status, _, body = self.ask("POST", "uploads=", headers=STAMPED)
        found = re.search(b"<UploadId>(.*?)</UploadId>", body)
        assert found, (status, body)
        return found[1].decode()

    def put(self, upload: str, number: int, body: bytes) -> str:
        status, headers, told = self.ask("PUT", f"partNumber={number}&uploadId={upload}", body)
        assert status == 200, told
        return headers["etag"]

    def complete(self, upload: str, *parts: tuple[int, str], headers: dict[str, str] | None = None) -> tuple[int, str]:
        """The status, and the ETag or the code of the error."""
        named = "".join(f"<Part><ETag>{etag}</ETag><PartNumber>{number}</PartNumber></Part>" for number, etag in parts)
        body = f"<CompleteMultipartUpload>{named}</CompleteMultipartUpload>".encode()
        status, _, told = self.ask("POST", f"uploadId={upload}", body, headers)
        found = re.search(b"<(?:ETag|Code)>(.*?)</", told)
        assert found, told
        return status, found[1].decode().replace("&quot;", '"')

    def facts(self) -> tuple[int, list[str], bytes]:
        """What a GET answers: the status, the headers that came with the upload, and the body."""
        status, headers, body = self.ask("GET")
        return status, [headers[name.lower()] for name in ("ETag", *STAMPED)], body


def test_an_upload_makes_the_object_that_moto_makes(tmp_path: Path) -> None:
    with s3_server(tmp_path) as port:
        ours, moto = Client(port, "db/ours", {}), Client(port, "db/moto", FOR_MOTO)
        told = []
        for client in (ours, moto):
            upload = client.begin()
            client.put(upload, 1, b"replaced by the next")
            parts = [(number, client.put(upload, number, body)) for number, body in ((2, REST), (1, BIG))]
            told.append(client.complete(upload, *reversed(parts)))
        assert told[0] == told[1]
        assert told[0][0] == 200
        assert told[0][1].endswith('-2"')
        assert ours.facts() == moto.facts()
        assert ours.facts()[2] == BIG + REST
    with s3_server(tmp_path) as port:
        assert Client(port, "db/ours", {}).facts() == Client(port, "db/moto", {}).facts()


@pytest.mark.parametrize("more", [{}, FOR_MOTO], ids=["ours", "moto"])
def test_parts_that_make_no_object_are_refused(tmp_path: Path, more: dict[str, str]) -> None:
    with s3_server(tmp_path) as port:
        client = Client(port, "db/key", more)
        upload = client.begin()
        first, second = client.put(upload, 1, b"small"), client.put(upload, 2, b"last")
        assert client.complete(upload, (1, first), (3, second)) == (400, "InvalidPart")
        assert client.complete(upload, (1, second)) == (400, "InvalidPart")
        if not more:  # moto takes them in any order
            assert client.complete(upload, (2, second), (1, first)) == (400, "InvalidPartOrder")
        assert client.complete(upload, (1, first), (2, second)) == (400, "EntityTooSmall")
        assert client.ask("GET")[0] == 404
        assert client.ask("DELETE", f"uploadId={upload}")[0] == 204
        assert not any(path.suffix == ".part" for path in (tmp_path / "postroom-replica").iterdir())


def test_a_condition_of_the_object_holds_when_the_upload_is_completed(tmp_path: Path) -> None:
    with s3_server(tmp_path) as port:
        client = Client(port, "db/key", {})
        upload = client.begin()
        etag = client.put(upload, 1, REST)
        client.ask("PUT", body=b"another was faster")
        unless = {"If-None-Match": "*"}
        assert client.complete(upload, (1, etag), headers=unless) == (412, "PreconditionFailed")
        assert client.ask("GET")[2] == b"another was faster"


def test_what_was_not_completed_is_gone_after_a_restart(tmp_path: Path) -> None:
    with s3_server(tmp_path) as port:
        client = Client(port, "db/key", {})
        client.put(client.begin(), 1, REST)
        assert [path.read_bytes() for path in (tmp_path / "postroom-replica").iterdir()] == [REST]
    with s3_server(tmp_path):
        assert list((tmp_path / "postroom-replica").iterdir()) == []
