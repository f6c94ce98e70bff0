"""An S3 that is away, slow, or answers nonsense: the app works on, and the replica is complete in the end."""

import http.client
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from emulator.proving.child import until
from emulator.proving.platform import Platform, lines
from tests.e2e.crash import invariants
from tests.e2e.crash.conftest import Make

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.crash]

SECONDS = 25
XML, HTML = [("Content-Type", "application/xml")], [("Content-Type", "text/html")]
ERROR = b'<?xml version="1.0"?><Error><Code>InternalError</Code><Message>An internal error occurred.</Message></Error>'
PORTAL = b"<html><head><title>Sign in to the network</title></head><body>Please sign in.</body></html>"
HOP = ("connection", "transfer-encoding", "content-length", "keep-alive")
MOODS = ("away", "slow", "hang", "error", "error after", "truncated", "portal", "portal after", "wrong body")

Headers = list[tuple[str, str]]


class Faulty(ThreadingHTTPServer):
    """A proxy before S3 with a *mood*; in the mood ``well`` it passes everything on.

    A mood with ``after`` carries the request out and then gives a wrong answer.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Proxied)
        self.mood = "well"
        self.target = 0
        self.seen: Counter[str] = Counter()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_: object) -> None:
        """S3 or Litestream hung up."""


class _Proxied(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Faulty

    def handle_any(self) -> None:
        mood = self.server.mood
        self.server.seen[mood] += 1
        body = self._body()
        if mood == "slow":
            time.sleep(random.uniform(0.2, 2))
        while mood == "hang" and self.server.mood == "hang":
            time.sleep(0.05)
        if mood in ("away", "hang"):
            self.close_connection = True
        elif mood == "error":
            self._answer(500, XML, ERROR)
        elif mood == "portal":
            self._answer(200, HTML, PORTAL)  # to uploads too, which are not stored
        else:
            self._done(mood, *self._pass_on(body))

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

    @property
    def _only_reads(self) -> bool:
        return self.command in ("GET", "HEAD")

    def _done(self, mood: str, status: int, headers: Headers, answer: bytes) -> None:
        match mood:
            case "error after":
                self._answer(503, XML, ERROR)
            case "portal after":
                self._answer(200, HTML, PORTAL)
            case "wrong body" if self._only_reads:
                self._answer(status, headers, bytes(byte ^ 0x5A for byte in answer))
            case "truncated" if answer:
                self._answer(status, headers, answer, cut=len(answer) // 2)
            case _:
                self._answer(status, headers, answer)

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
            if len(body) < length:  # the sender gave up in the middle; passing on the half would make it whole
                raise ConnectionError
            return body
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)

    def _pass_on(self, body: bytes) -> tuple[int, Headers, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.target, timeout=30)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in HOP:
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            length = answer.getheader("Content-Length")
            headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in HOP]
            if self.command == "HEAD" and length:
                headers.append(("Content-Length", length))
            return answer.status, headers, answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: Headers, body: bytes, cut: int | None = None) -> None:
        if self.command != "HEAD":
            headers = [*headers, ("Content-Length", str(len(body)))]
        head = "".join(f"{name}: {value}\r\n" for name, value in headers)
        self.wfile.write(f"HTTP/1.1 {status} X\r\n{head}\r\n".encode())
        if self.command != "HEAD":
            self.wfile.write(body[:cut])
        self.close_connection = cut is not None

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def faulty() -> Iterator[Faulty]:
    proxy = Faulty()
    yield proxy
    proxy.mood = "well"
    proxy.shutdown()
    proxy.server_close()


@pytest.mark.parametrize("kills", [False, True], ids=["and Litestream lives", "and Litestream is killed"])
def test_a_bad_s3_delays_no_message_and_the_replica_catches_up(
    make_post: Make, platform: Platform, faulty: Faulty, dice: random.Random, scale: float, tmp_path: Path, kills: bool
) -> None:
    post = make_post(replica="s3", s3_port=faulty.server_port)
    faulty.target = post.port("s3")
    chats = [str(chat) for chat in range(100, 112)]
    post.prepare({"many": 8}, dict.fromkeys(chats, "many"))
    post.start()
    seconds = SECONDS * scale
    each = int(seconds)

    with platform.people(post.port("ingest"), lines(chats, each, lambda _: "ok:0.02", dice), pace_s=0.4) as crowd:
        over = time.monotonic() + seconds
        moods = dice.sample(MOODS, len(MOODS))
        while time.monotonic() < over:
            faulty.mood = moods.pop() if moods else dice.choice([*MOODS, "well"])
            time.sleep(dice.uniform(1.5, 4))
            if kills and dice.random() < 0.3:
                post.kill("litestream")
        until("every message to be accepted", lambda: crowd.is_done, 30 * scale)
        faulty.mood = dice.choice(["away", "error", "portal"])
        post.settle(15)
    invariants.check(post, all_completed=True)
    assert {status for written in platform.written.values() for status in written.statuses} == {200}
    print(f"requests by mood: {dict(faulty.seen)}")

    faulty.mood = "well"
    begun = time.monotonic()
    invariants.check_replica(post, tmp_path, 90)
    print(f"the replica was complete after {time.monotonic() - begun:.1f} s")
