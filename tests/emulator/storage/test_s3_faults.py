"""The faults of the bucket, over HTTP: what Litestream would see."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from emulator.base.faults import Fault, Faults, as_facts
from emulator.storage.moto_view import MotoView
from emulator.storage.object_folder import ObjectFolder
from emulator.storage.s3_connections import LimitedServer
from emulator.storage.s3_faults import BucketFaults
from emulator.storage.s3_server import S3Server
from shared.conversation.alerts import faults_by_hand
from shared.core.time import clock

SCOPE = "e/20260301/us-east-1/s3/aws4_request"
SIGNED = {"Authorization": f"AWS4-HMAC-SHA256 Credential={SCOPE}, SignedHeaders=host, Signature=0"}


class Bucket:
    """A bucket with the object ``/b/k``, and the faults that a test sets as the supervisor does."""

    def __init__(self, folder: Path) -> None:
        self._file = faults_by_hand.path_in(folder)
        self._book = Faults("bucket", clock.machine_ms)
        self.faults = BucketFaults(self._file)
        objects = ObjectFolder(folder / "s3")
        objects.add_bucket("b")
        self.server = LimitedServer(0, S3Server(objects, MotoView(objects, lambda: None), self.faults))

    def set(self, **given: object) -> None:
        self._book.add(Fault.parse("bucket", given))
        self.tell()

    def lift(self) -> None:
        self._book.lift()
        self.tell()

    def tell(self) -> None:
        self._file.write_text(json.dumps([as_facts(fault) for fault in self._book.standing()]))
        self.faults.read()

    def ask(self, method: str, path: str, body: bytes | None = None, *, signed: bool = True) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
        try:
            connection.request(method, path, body, SIGNED if signed else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[Bucket]:
    made = Bucket(tmp_path)
    with _serving(made.server):
        assert made.ask("PUT", "/b/k", b"0123456789")[0] == 200
        yield made


@contextmanager
def _serving(server: LimitedServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_without_a_fault_every_request_is_answered(bucket: Bucket) -> None:
    assert bucket.ask("GET", "/b/k") == (200, b"0123456789")


def test_a_status_is_an_error_of_s3_and_nothing_is_done(bucket: Bucket) -> None:
    bucket.set(kind="status", method="PUT")
    status, body = bucket.ask("PUT", "/b/k", b"new")
    assert (status, b"<Code>SlowDown</Code>" in body) == (503, True)
    assert bucket.ask("GET", "/b/k") == (200, b"0123456789")
    bucket.lift()
    assert bucket.ask("PUT", "/b/k", b"new")[0] == 200


def test_drop_gives_no_answer_and_our_own_probe_gets_none_either(bucket: Bucket) -> None:
    bucket.set(kind="drop")
    for path, signed in (("/b/k", True), ("/", False)):
        with pytest.raises(http.client.RemoteDisconnected):
            bucket.ask("GET", path, signed=signed)


def test_the_probe_takes_nothing_of_a_number(bucket: Bucket, capfd: pytest.CaptureFixture[str]) -> None:
    bucket.set(kind="status", status=500, times=1)
    assert bucket.ask("GET", "/", signed=False)[0] == 200
    assert bucket.ask("GET", "/b/k")[0] == 500
    assert bucket.ask("GET", "/b/k")[0] == 200
    assert '"event": "s3.fault_taken"' in capfd.readouterr().out, "the supervisor learns it so"


def test_cut_does_the_work_and_ends_the_answer_in_the_middle(bucket: Bucket) -> None:
    bucket.set(kind="cut")
    with pytest.raises(http.client.IncompleteRead) as found:
        bucket.ask("GET", "/b/k")
    assert found.value.partial == b"01234"
    with pytest.raises(http.client.RemoteDisconnected):
        bucket.ask("PUT", "/b/k", b"new")  # its answer has no body to be cut
    bucket.lift()
    assert bucket.ask("GET", "/b/k") == (200, b"new")


def test_delay_answers_late(bucket: Bucket) -> None:
    bucket.set(kind="delay", delay_ms=1)
    assert bucket.ask("GET", "/b/k") == (200, b"0123456789")


def test_a_process_that_starts_has_the_faults_that_stand(bucket: Bucket, tmp_path: Path) -> None:
    bucket.set(kind="drop")
    again = BucketFaults(faults_by_hand.path_in(tmp_path))
    with pytest.raises(ConnectionError):
        again.before("GET")
