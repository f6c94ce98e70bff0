"""Mixed traffic of one hour: people on both platforms, a client of the API, readers of the queue and of the metrics."""

import contextlib
import random
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from typing import Any

from emulator.base.errors import EmulatorError
from emulator.cli import client
from emulator.testing import RunningEmulator

PEOPLE = ("Ana", "Ben")
GROUP, MENTION = "Lunch group", "@postroom_bot"
_OLD = 20  # messages later, one is changed: it has its answer by then
# Of a hundred steps.
_STEPS = {
    "direct": 52,
    "long": 6,
    "slow": 4,
    "failing": 2,
    "group": 10,
    "discord": 10,
    "api": 4,
    "edit": 3,
    "react": 3,
    "delete": 2,
    "read": 4,
}


class Traffic:
    """What people do in one hour after the other; *said* has the texts that wait for an answer."""

    def __init__(self, emulator: RunningEmulator, seed: int) -> None:
        self._emulator = emulator
        self._dice = random.Random(seed)
        self._people, self._asker = self._ids("telegram"), self._ids("discord")[PEOPLE[0]]
        groups = client.ask_platforms(emulator.state.path, "GET", "/control/telegram/chats")["chats"]
        self._group = next(str(each["id"]) for each in groups if each["title"] == GROUP)
        self._sent: list[tuple[str, str, str]] = []  # person, chat and message
        self.did: Counter[str] = Counter()
        self.said: list[str] = []
        self._steps: dict[str, Callable[[str], Any]] = {
            "direct": lambda text: self._say(text),
            "long": lambda text: self._say(f"{text} {'and so on, ' * self._dice.randrange(40, 250)}"),
            "slow": lambda text: emulator.api.post("message", body={"message": f"!slow 1 {text}"}),  # holds its session
            "failing": lambda text: emulator.api.post("message", body={"message": f"!fail 1 {text}"}),
            "group": lambda text: self._say(f"{MENTION} {text}", self._group),
            "discord": self._ask,
            "api": lambda text: emulator.api.post("message", body={"message": text}),
        }

    def run(self, hour: int, steps: int, rate: float) -> None:
        """So many steps, *rate* of them a second where the machine can."""
        self.said.clear()
        for number in range(steps):
            (step,) = self._dice.choices(list(_STEPS), list(_STEPS.values()))
            text = f"h{hour:02} {number:04}"
            if step in self._steps:
                self._steps[step](text)
                self.said.append(text)
            elif step == "read":
                self._read()
            elif not self._change(step):
                continue
            self.did[step] += 1
            time.sleep(self._dice.expovariate(rate))

    def _say(self, text: str, chat: str | None = None) -> None:
        """A person writes. Not by ``telegram.say``, which reads the whole chat first, and so costs more each hour."""
        person = self._people[self._dice.choice(PEOPLE)]
        place = chat or person  # a direct chat on Telegram has the person's id
        said = self._post("telegram", "say", person=person, text=text, chat=place)
        self._sent = [*self._sent[-3 * _OLD :], (person, place, str(said["message_id"]))]

    def _ask(self, text: str) -> None:
        self._post("discord", "say", person=self._asker, text=text)

    def _change(self, step: str) -> bool:
        """A person edits, deletes or reacts to a message that was answered; False: there is none yet."""
        if len(self._sent) <= _OLD:
            return False
        person, chat, message = self._sent.pop(0)
        more = {"edit": {"text": "never mind"}, "react": {"emoji": "👍"}, "delete": {}}[step]
        with contextlib.suppress(EmulatorError):  # the fake forgets old messages, as an app does
            self._post("telegram", step, person=person, chat=chat, message=message, **more)
        return True

    def _post(self, platform: str, action: str, **body: Any) -> Any:
        given = {name: value for name, value in body.items() if value is not None}
        return client.ask_platforms(self._emulator.state.path, "POST", f"/chat/{platform}/{action}", given)

    def _ids(self, platform: str) -> dict[str, str]:
        people = client.ask_platforms(self._emulator.state.path, "GET", f"/control/{platform}/people")["people"]
        return {each["name"]: str(each["id"]) for each in people}

    def _read(self) -> None:
        self._emulator.api.get("queue", "status")
        self._emulator.api.get("responses", limit=50)
        self._emulator.api.get("health")


class EventReader:
    """Reads the stream of events as a dashboard does; connects again where it left off, every few hundred events."""

    def __init__(self, emulator: RunningEmulator, token: str) -> None:
        self._url, self._token = f"{emulator.url}/api/events/stream", token
        self._stopping = threading.Event()
        self._last = "0"
        self.seen = 0
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(20)

    def _work(self) -> None:
        while not self._stopping.is_set():
            headers = {"Authorization": f"Bearer {self._token}", "Last-Event-ID": self._last}
            with contextlib.suppress(OSError):
                self._read(urllib.request.Request(self._url, headers=headers))
            self._stopping.wait(0.2)

    def _read(self, request: urllib.request.Request) -> None:
        with urllib.request.urlopen(request, timeout=16) as stream:
            for _ in range(2000):
                line = stream.readline()
                if not line or self._stopping.is_set():
                    return
                if line.startswith(b"id:"):
                    self._last = line[3:].strip().decode()
                    self.seen += 1
