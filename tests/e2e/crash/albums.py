"""People who send albums, and the platform that has their pictures and takes the files of answers.

A picture is one update, as Telegram sends it; a text that ends in its number and ``| files`` names it.
"""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any

from emulator.proving.platform import Platform, Written


class AlbumPlatform(Platform):
    """Takes uploads slowly, so that a kill hits some. *arrived*: how often each file came, by its name."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__(doubles=0)
        self._dice = dice
        self._numbers = 0
        self.half_sent = threading.Event()  # an album lacks pictures
        self.uploading = threading.Event()  # a file has come, and no answer has gone back
        self.arrived: Counter[str] = Counter()

    def content_of(self, written: Written) -> dict[str, Any]:
        name = _name(written)
        photo = [{"file_id": name, "file_unique_id": name, "width": 9, "height": 9, "file_size": len(name)}]
        return {"photo": photo, "caption": written.text, "media_group_id": name.rpartition("-")[0]}

    def called(self, method: str, kind: str, body: bytes) -> Any:
        if method == "getFile":
            asked = json.loads(body)["file_id"]
            return {"file_id": asked, "file_unique_id": asked, "file_path": f"photos/{asked}"}
        if not kind.startswith("multipart/"):
            return True
        names = list(_uploaded(kind, body))
        with self._lock:
            self.arrived.update(names)
            first = self._numbers + 1_000_000
            self._numbers += len(names)
            seconds = self._dice.choice([0.02, 0.2, 0.6])
        self.uploading.set()
        time.sleep(seconds)
        self.uploading.clear()
        messages = [{"message_id": first + number, "date": 1} for number in range(len(names))]
        return messages if method == "sendMediaGroup" else messages[0]

    @contextmanager
    def senders(self, port: int, chats: Sequence[str], albums: int, seconds: float) -> Iterator["Senders"]:
        """In each chat, somebody sends so many albums in some *seconds*."""
        senders = Senders(self, port, chats, albums, seconds / albums, self._dice)
        try:
            yield senders
        finally:
            senders.stop()


class Senders:
    """One thread a chat; each picture is delivered until it is accepted, in order."""

    def __init__(
        self, platform: AlbumPlatform, port: int, chats: Sequence[str], albums: int, pace_s: float, dice: random.Random
    ) -> None:
        self._platform = platform
        self._port = port
        self._pace_s = pace_s
        self._stopping = threading.Event()
        plans = {
            chat: [[dice.uniform(0, 0.2) for _ in range(dice.randrange(2, 6))] for _ in range(albums)] for chat in chats
        }
        self._threads = [threading.Thread(target=self._work, args=plan, daemon=True) for plan in plans.items()]
        for thread in self._threads:
            thread.start()

    @property
    def is_done(self) -> bool:
        """Whether all pictures were accepted."""
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(35)

    def _work(self, chat: str, albums: Sequence[Sequence[float]]) -> None:
        for album, pauses in enumerate(albums):
            for piece, pause_s in enumerate(pauses):
                written = self._platform.write(chat, f"c{chat} {album:04} {piece} | files")
                while not written.accepted and not self._stopping.is_set():
                    self._platform.deliver(written, self._port)
                    if not written.accepted:
                        self._stopping.wait(0.05)
                (self._platform.half_sent.set if piece + 1 < len(pauses) else self._platform.half_sent.clear)()
                self._stopping.wait(pause_s)
            self._stopping.wait(self._pace_s)


def _name(written: Written) -> str:
    return written.text.partition("|")[0].strip().replace(" ", "-")


def _uploaded(kind: str, body: bytes) -> Iterator[str]:
    """The names of the files in a multipart body."""
    for part in (
        BytesParser(policy=HTTP).parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body).iter_parts()
    ):
        if (name := part.get_filename()) is not None:
            yield name
