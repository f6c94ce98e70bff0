"""Programs that use the API: one sends messages and waits for their ends, fetches the answers, and reads the events.

Each does what a client may do: it asks again when its answer is lost, under the same id, and goes on where it was.
"""

import asyncio
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.simulation.machine.process import Answer, Reset
from tests.simulation.parts import Query, Surroundings, Work, WorldPart
from tests.simulation.people.lines import Line

TOKEN = "a-token-of-the-world"
HEADERS = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
_PAUSE_S = 1.5
_FIELD = re.compile(rb"^(id|event): (.+)$", re.MULTILINE)


class Client(WorldPart):
    """A program named *sender*, which fetches answers every *fetches_s* seconds.

    It repeats some messages so many seconds after their ends.

    Attributes:
        missed: what ended and was pruned before it could ask again.
        ended: status and answers of each message, as the API has told them to the one who waited.
        fetched: the answers that were fetched, by the ids of their responses.
        event_ids: of the events that it has read, in order.
        event_names: of the last frame of each event, by its id.
        wrong: what the API did and must not do.
    """

    def __init__(
        self,
        world: Surroundings,
        sender: str,
        lines: list[Line],
        *,
        fetches_s: float = _PAUSE_S,
        repeats_after_s: Sequence[float] = (0.0,),
    ) -> None:
        self._world = world
        self._repeats_after_s = repeats_after_s
        self._fetches_s = fetches_s
        self.sender = sender
        self.asked = lines
        self.missed: set[str] = set()
        self.ended: dict[str, tuple[str, list[str]]] = {}
        self.fetched: dict[int, str] = {}
        self.event_ids: list[int] = []
        self.event_names: dict[int, str] = {}
        self.wrong: list[str] = []

    def settings(self) -> Mapping[str, str]:
        return {"POSTROOM_API_TOKEN": TOKEN}

    def work(self) -> Sequence[Work]:
        return [self._write()]

    def lasting(self) -> Sequence[Work]:
        return [self._fetch(), self._read_events()]

    def lines(self) -> Mapping[str, Line]:
        return {line.text: line for line in self.asked}

    def is_behind(self, query: Query) -> bool:
        """A second or two: the stream has the last events, and this reader may just connect again."""
        ((newest,),) = query("SELECT max(id) FROM events")
        return bool(self.event_ids) and self.event_ids[-1] != newest

    def problems(self, query: Query, *, is_history_whole: bool) -> list[str]:
        """P7, P9 over REST: who waited was told the end, each answer was fetched, and each event came once."""
        problems = list(self.wrong)
        problems += [
            f"the API told of {line.text!r}: {self.ended.get(line.text)}"
            for line in self.asked
            if line.text not in self.missed and self.ended.get(line.text) != ("completed", list(line.answers or ()))
        ]
        acked: dict[int, str] = dict(
            query("SELECT id, message FROM responses WHERE channel = 'api' AND status = 'acked'")
        )
        problems += [
            f"{text!r} is acked, and nobody fetched it" for id_, text in acked.items() if id_ not in self.fetched
        ]
        stored = query(f"SELECT message, count(*) FROM messages WHERE sender = '{self.sender}' GROUP BY 1")
        problems += [
            f"{text!r} was sent under one id, and is stored {count} times" for text, count in stored if count > 1
        ]
        return [*problems, *self._streamed(dict(query("SELECT id, type FROM events")))]

    def _streamed(self, events: Mapping[int, str]) -> Iterator[str]:
        """Each event came once, and all of it before its id, also after those that were lost with a disk.

        Where ids may come again, the stream goes on with the next event.
        """
        told, is_unique = self.event_ids, self._world.are_ids_unique
        if told and told[-1] != max(events):
            yield f"the stream stands at the event {told[-1]} of {max(events)}"
        if is_unique and told != sorted(set(told)):
            yield "events came twice, or out of order"
        missing = sorted(events.keys() - set(told)) if is_unique else []
        if missing:
            yield f"the stream left out the events {missing[:5]}"
        halves = [id_ for id_, name in self.event_names.items() if is_unique and events.get(id_, name) != name]
        if halves:
            yield f"of the events {halves[:5]} the ids came before the rest"

    async def _write(self) -> None:
        """Send each line after the end of the one before it; some once more, as if the answer had been missed."""
        dice = self._world.dice(f"repetitions of {self.sender}")
        late: list[asyncio.Task[None]] = []
        for number, line in enumerate(self.asked):
            await asyncio.sleep(line.after_s)
            id_ = f"api_{self.sender}n{number}"
            await self._send(id_, line.text)
            again = dice.choices(["at once", "at its end", "never"], [1, 1, 6])[0]
            if again == "at once":
                await self._send(id_, line.text)
            await self._wait(id_, line.text)
            if again == "at its end":
                late.append(asyncio.create_task(self._send(id_, line.text, after_s=dice.choice(self._repeats_after_s))))
        await asyncio.gather(*late)

    async def _send(self, id_: str, text: str, *, after_s: float = 0.0) -> None:
        await asyncio.sleep(after_s)
        body = {"message": text, "sender": self.sender, "messageId": id_}
        while (answer := await self._ask("POST", "/api/message", body)) is None or answer.status not in (200, 409):
            if answer is not None and answer.status not in (500, 503):
                self.wrong.append(f"POST /api/message {text!r}: {answer.status} {answer.body!r}")
            await asyncio.sleep(_PAUSE_S)

    async def _wait(self, id_: str, text: str) -> None:
        while True:
            answer = await self._ask("GET", f"/api/messages/{id_}?wait=30")
            if answer is None or answer.status in (500, 503):
                await asyncio.sleep(_PAUSE_S)
                continue
            if answer.status == 404 and self._is_pruned(id_):
                self.missed.add(text)
                return
            if answer.status != 200:
                self.wrong.append(f"GET /api/messages/{id_}: {answer.status}, and it was accepted")
                return
            story = json.loads(answer.body)
            if story["status"] in ("completed", "dead"):
                self.ended[text] = story["status"], [each["message"] for each in story["responses"]]
                return

    def _is_pruned(self, id_: str) -> bool:
        """It ended, and its row is gone."""
        there = f"message_id = '{id_}'"
        return bool(
            self._world.query(
                f"SELECT 1 FROM messages WHERE {there} AND status = 'completed'"
                f" AND NOT EXISTS (SELECT 1 FROM main.messages WHERE {there})"
            )
        )

    async def _fetch(self) -> None:
        """Fetch what is there for API clients, and acknowledge it; without an end."""
        while True:
            await asyncio.sleep(self._fetches_s)
            answer = await self._ask("GET", "/api/responses/pending?channel=api")
            if answer is None or answer.status != 200:
                continue
            for each in json.loads(answer.body):
                known = self.fetched.setdefault(each["id"], each["message"])
                if known != each["message"]:
                    self.wrong.append(f"response {each['id']} was {known!r} and is {each['message']!r}")
                await self._ask("POST", f"/api/responses/{each['id']}/ack", {})

    async def _read_events(self) -> None:
        """Read the stream of events, each time from the last event that came; without an end."""
        kept = b""

        def read(piece: bytes) -> None:
            nonlocal kept
            kept += piece
            whole, _, kept = kept.rpartition(b"\n\n")
            for frame in whole.split(b"\n\n"):
                said = dict(_FIELD.findall(frame))
                if b"id" in said:
                    self.event_ids.append(int(said[b"id"]))
                    self.event_names[self.event_ids[-1]] = said.get(b"event", b"").decode()

        while True:
            last = {"last-event-id": str(self.event_ids[-1] if self.event_ids else 0)}
            kept = b""
            try:
                await self._world.ask("api", "GET", "/api/events/stream", HEADERS | last, b"", read)
            except Reset:
                await asyncio.sleep(_PAUSE_S)

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Answer | None:
        """None: no answer came."""
        try:
            sent = b"" if body is None else json.dumps(body).encode()
            return await self._world.ask("api", method, path, HEADERS, sent)
        except Reset:
            return None


def lines(dice: random.Random, sender: str, span_s: float) -> list[Line]:
    """What a program asks."""
    count = dice.randint(0, 6)
    marks = [f"a{sender}n{number}" for number in range(count)]
    return [
        Line(dice.expovariate(count / span_s), f"!fail {dice.randint(1, 2)} {mark}", (mark,))
        if dice.random() < 0.3
        else Line(dice.expovariate(count / span_s), mark, (f"You said: {mark}",))
        for mark in marks
    ]
