"""The chat platform of a run: it delivers messages until they are accepted, and records every send.

It runs in the process of the run, which nothing kills. It speaks Telegram's API and misbehaves by plan.
"""

import http.client
import json
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, Queue
from typing import Any

TOKEN, SECRET = "1234567:proof", "hook-secret"

# What the platform does with a send: it accepts it or not, then answers or not.
OK, SLOW, BUSY, BROKEN, TAKEN_BROKEN, LOST, TAKEN_LOST, REFUSED = (
    *("ok", "slow", "busy", "broken", "taken-broken", "lost", "taken-lost", "refused"),
)
TAKES = (OK, SLOW, TAKEN_BROKEN, TAKEN_LOST)


@dataclass(frozen=True, slots=True)
class Send:
    """One call of sendMessage: whether the person got it (*taken*), and how the platform answered."""

    chat: str
    text: str
    taken: bool
    how: str
    at_ns: int


@dataclass(slots=True)
class Written:
    """A message of a person: one update, and the statuses of its deliveries."""

    update_id: int
    chat: str
    text: str
    accepted: bool = False
    statuses: list[int] = field(default_factory=list)  # 0: no answer

    @property
    def event(self) -> tuple[str, str]:
        """The channel and the key by which rows know the update."""
        return "telegram", f"{TOKEN.partition(':')[0]}:{self.update_id}"


Plan = Callable[[str, int], tuple[str, float]]  # text and number of the send, to the behaviour and its seconds


class Platform:
    """Both directions of one bot. *plan* decides each send; *doubles* of every hundred updates come twice."""

    def __init__(self, plan: Plan | None = None, *, doubles: int = 5) -> None:
        self.plan = plan or (lambda text, attempt: (OK, 0.0))
        self._doubles = doubles
        self.sends: list[Send] = []
        self.written: dict[str, Written] = {}
        self._attempts: Counter[str] = Counter()
        self._next_update = 1000
        self._lock = threading.Lock()
        platform = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                method = self.path.rpartition("/")[2]
                if method == "sendMessage":
                    platform._sent(self, json.loads(body))
                else:
                    result = platform.called(method, self.headers["Content-Type"], body)
                    self.answer(200, {"ok": True, "result": result})

            def do_GET(self) -> None:
                self._write(200, "application/octet-stream", platform.file(self.path.rpartition("/")[2]))

            def answer(self, status: int, payload: dict[str, Any]) -> None:
                self._write(status, "application/json", json.dumps(payload).encode())

            def _write(self, status: int, kind: str, body: bytes) -> None:
                head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
                self.wfile.write(head.encode() + body)

            def log_message(self, *_: object) -> None:
                return

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """The caller was killed."""

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True, name="platform").start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def called(self, method: str, kind: str, body: bytes) -> Any:
        """The result of a call that is no sendMessage."""
        return True

    def file(self, name: str) -> bytes:
        """The content of a file that somebody sent."""
        return name.encode()

    @property
    def taken(self) -> list[Send]:
        """The sends that people got, in order."""
        return [send for send in self.sends if send.taken]

    def _sent(self, handler: Any, body: dict[str, Any]) -> None:
        chat, text = str(body["chat_id"]), body["text"]
        if not text:  # `deliver` asks in this way whether sends are answered
            handler.answer(400, {"ok": False, "error_code": 400, "description": "Bad Request: message text is empty"})
            return
        with self._lock:
            self._attempts[text] += 1
            how, seconds = self.plan(text, self._attempts[text])
            self.sends.append(Send(chat, text, how in TAKES, how, time.monotonic_ns()))
            number = len(self.sends)
        time.sleep(seconds)
        match how:
            case "ok" | "slow":
                result = {"message_id": number, "date": 1, "chat": {"id": int(chat), "type": "private"}, "text": text}
                handler.answer(200, {"ok": True, "result": result})
            case "busy":
                asked = {"retry_after": 1}
                handler.answer(429, {"ok": False, "error_code": 429, "description": "slow down", "parameters": asked})
            case "refused":
                handler.answer(400, {"ok": False, "error_code": 400, "description": "Bad Request: not enough rights"})
            case "broken" | "taken-broken":
                handler.answer(502, {"ok": False, "error_code": 502, "description": "Bad Gateway"})
            case _:
                handler.close_connection = True  # the request was read; no answer comes

    # -- people ------------------------------------------------------------------------------------------------------

    def write(self, chat: str, text: str) -> Written:
        """A person writes a message, which is not delivered yet."""
        with self._lock:
            self._next_update += 1
            written = Written(self._next_update, chat, text)
            if text in self.written:
                raise ValueError(f"the checks tell messages apart by their texts, and {text!r} was written before")
            self.written[text] = written
        return written

    def content_of(self, written: Written) -> dict[str, Any]:
        """What the message holds, as the Bot API has it."""
        return {"text": written.text}

    def deliver(self, written: Written, port: int, *, patience_s: float = 30.0) -> tuple[int, dict[str, str]]:
        """One delivery of the update to the webhook: status (0 without an answer) and headers."""
        chat = {"id": int(written.chat), "type": "private", "first_name": "P" + written.chat}
        message = {"message_id": written.update_id, "date": 1, "chat": chat, **self.content_of(written)}
        message |= {"from": {"id": int(written.chat), "first_name": "P" + written.chat, "is_bot": False}}
        body = json.dumps({"update_id": written.update_id, "message": message})
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience_s)
        headers = {"Content-Type": "application/json", "X-Telegram-Bot-Api-Secret-Token": SECRET}
        try:
            connection.request("POST", "/webhooks/telegram", body, headers)
            answer = connection.getresponse()
            answer.read()
            status, found = answer.status, {name.lower(): value for name, value in answer.getheaders()}
        except (OSError, http.client.HTTPException):
            status, found = 0, {}
        finally:
            connection.close()
        written.statuses.append(status)
        written.accepted |= 200 <= status < 300
        return status, found

    @contextmanager
    def people(
        self, port: int, lines: Mapping[str, Iterable[str]], *, pace_s: float = 0.0, at_once: int = 6
    ) -> Iterator["People"]:
        """People write their lines, each chat in order, until all are accepted or the block ends."""
        crowd = People(self, port, lines, pace_s, self._doubles, at_once)
        try:
            yield crowd
        finally:
            crowd.stop()


class People:
    """The platform's side of the webhooks: it delivers a refused update again before the next of that chat."""

    def __init__(
        self,
        platform: Platform,
        port: int,
        lines: Mapping[str, Iterable[str]],
        pace_s: float,
        doubles: int,
        at_once: int,
    ) -> None:
        self._platform = platform
        self._port = port
        self._pace_s = pace_s
        self._doubles = doubles
        self._stopping = threading.Event()
        chats: Queue[tuple[str, Iterator[str]]] = Queue()
        for chat, texts in lines.items():
            chats.put((chat, iter(texts)))
        self._chats = chats
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(min(at_once, len(lines)))]
        self._left = len(lines)
        self._lock = threading.Lock()
        for thread in self._threads:
            thread.start()

    @property
    def is_done(self) -> bool:
        """Whether all lines were accepted."""
        return self._left == 0

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(35)

    def _work(self) -> None:
        while not self._stopping.is_set() and not self.is_done:
            try:
                chat, texts = self._chats.get(timeout=0.05)
            except Empty:
                continue
            text = next(texts, None)
            if text is None:
                with self._lock:
                    self._left -= 1
                continue
            written = self._platform.write(chat, text)
            while not written.accepted and not self._stopping.is_set():
                self._platform.deliver(written, self._port)
                if not written.accepted:
                    self._stopping.wait(0.05)
            if written.update_id % 100 < self._doubles:
                self._platform.deliver(written, self._port)  # as if Telegram had missed our 200
            self._stopping.wait(self._pace_s)
            self._chats.put((chat, texts))


def by_chat(sends: Iterable[Send]) -> dict[str, list[Send]]:
    """The sends of each chat, in the order of time."""
    found: dict[str, list[Send]] = defaultdict(list)
    for send in sends:
        found[send.chat].append(send)
    return found


def lines(
    chats: Sequence[str], count: int, plan: Callable[[random.Random], str], dice: random.Random, *, first: int = 0
) -> dict[str, list[str]]:
    """*count* texts for each chat, numbered from *first*; each says what its turns do."""
    numbers = range(first, first + count)
    return {chat: [f"c{chat} {number:04} | {plan(dice)}" for number in numbers] for chat in chats}
