"""An agent that does one thing at a time, and another one in whose name a program sends it what is urgent."""

import asyncio
import json
import random
from collections.abc import Sequence

import apsw

from shared.roster import agents_and_teams
from tests.simulation.agents.thinkers import wire
from tests.simulation.machine.process import Reset
from tests.simulation.parts import Query, Surroundings, Work, WorldPart
from tests.simulation.people import programs
from tests.simulation.people.lines import Line
from tests.simulation.platforms.messages import Place

AGENT, OTHER = "hurried", "hurrier"
_PLACE = Place("850", None, "850")
_AT_ONCE_MS = 6_000  # a tick of dispatch, where a kick was lost
_WAITS = """
    SELECT m.message_id, min(begun.created_at) - received.created_at
      FROM messages m
      JOIN events received ON received.message_id = m.message_id AND received.type = 'message_received'
      JOIN events begun ON begun.type = 'chain_step_start' AND begun.session_id = m.session_id
                       AND EXISTS (SELECT 1 FROM json_each(begun.data, '$.batch') WHERE value = m.message_id)
     WHERE m.agent = 'hurried' AND m.urgency = 'urgent'
     GROUP BY m.id
"""


class Hurries(WorldPart):
    """A person keeps the agent busy, and what a program sends meanwhile is urgent."""

    def __init__(self, world: Surroundings) -> None:
        dice = world.dice("hurries")
        self._world = world
        count = dice.randint(1, 3)
        self._times_s = sorted(dice.uniform(2, world.span_s) for _ in range(count))
        self.written = {_PLACE: _lines(dice, self._times_s)}
        self._urgent = [(at_s + dice.uniform(2, 10), f"u{number}") for number, at_s in enumerate(self._times_s)]

    def furnish(self, conn: apsw.Connection, now_ms: int) -> None:
        for agent in (AGENT, OTHER):
            agents_and_teams.save_agent(conn, agent, {"concurrency": 1}, now_ms=now_ms)
        wire(conn, _PLACE, AGENT, now_ms)

    def work(self) -> Sequence[Work]:
        return [self._hurry(at_s, text) for at_s, text in self._urgent]

    async def _hurry(self, at_s: float, text: str) -> None:
        """Send it until it is taken; one whose answer is lost may then stand there twice."""
        await asyncio.sleep(at_s)
        self._world.tell(f"a program sends {text!r}, which is urgent")
        status = 0
        while status != 200:
            status = await self._post(text)
            await asyncio.sleep(0 if status == 200 else 2)

    async def _post(self, text: str) -> int:
        said = {"sender": OTHER, "recipient": AGENT, "body": text, "msgType": "nudge", "urgency": "urgent"}
        body = json.dumps(said).encode()
        try:
            return (await self._world.ask("api", "POST", "/api/mail", programs.HEADERS, body)).status
        except Reset:
            return 0

    def problems(self, query: Query, *, is_history_whole: bool) -> list[str]:
        """Each is there and ends; where nothing goes wrong, the agent has it at once, whatever it does."""
        done = f"SELECT message FROM messages WHERE agent = '{AGENT}' AND status = 'completed'"
        there = {text for (text,) in query(done)}
        problems = [f"{text!r} was taken, and is not done" for _, text in self._urgent if text not in there]
        if self._world.is_calm:
            late = [(id_, ms) for id_, ms in query(_WAITS) if ms > _AT_ONCE_MS]
            problems += [f"{id_} is urgent, and waited for {ms} ms" for id_, ms in late]
        return problems


def _lines(dice: random.Random, times_s: Sequence[float]) -> list[Line]:
    """What a person writes at these instants keeps the agent busy."""
    before_s = [0.0, *times_s]
    made = []
    for number, (begun_s, at_s) in enumerate(zip(before_s, times_s, strict=False)):
        mark = f"{_PLACE.mark}n{number}"
        made.append(Line(at_s - begun_s, f"!slow {dice.randint(20, 40)} {mark}", (mark,)))
    return made
