"""People who write while a drill goes on: messages to the fake Telegram, at a steady rate."""

import contextlib
import threading
import time
from types import TracebackType
from typing import Self

from emulator.cli import client

_BEFORE_S = 5.0
_LIMIT_S = 5.0


class Load:
    """Sends *rate* messages a second from its beginning to its end; none with a rate of 0, or without platforms."""

    def __init__(self, chat_url: str | None, rate: int) -> None:
        self._url = chat_url if rate else None
        self._rate = rate
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._sent = self._accepted = 0

    def __enter__(self) -> Self:
        if self._url is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._url is not None:
            self._thread.join(_LIMIT_S)

    def wait(self) -> None:
        """Wait until people have written for a while."""
        if self._url is not None:
            self._ended.wait(_BEFORE_S)

    def facts(self) -> dict[str, int]:
        """How many messages were sent, and how many the platform took."""
        return {"sent": self._sent, "accepted": self._accepted, "refused": self._sent - self._accepted}

    def _run(self) -> None:
        base, _, path = (self._url or "").partition("/_emulator/")
        state = client.get_json(base, f"/_emulator/{path}/state") or {"telegram": {"people": []}}
        people = [each["id"] for each in state["telegram"]["people"]]
        begun_s = time.monotonic()
        while people and not self._ended.wait(max(0.0, begun_s + self._sent / self._rate - time.monotonic())):
            self._sent += 1
            body = {"person": people[0], "text": f"drill {self._sent}"}
            with contextlib.suppress(OSError):
                said = client.post_json(base, f"/_emulator/{path}/telegram/say", {}, body=body, limit_s=_LIMIT_S)
                self._accepted += said[0] == 201
