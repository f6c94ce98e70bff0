"""The people of one platform: they write their lines, each until it is accepted, and press the buttons they get."""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence

import apsw

from shared.core import accounts as names
from shared.roster import accounts
from tests.simulation.machine.wires import Host
from tests.simulation.parts import Query, Surroundings, Work, WorldPart
from tests.simulation.people.lines import Line
from tests.simulation.platforms.base import Platform
from tests.simulation.platforms.messages import Place, Written

_PRESSES = 200  # looks of a person for a button


class People(WorldPart):
    """Each place has one person, with the lines that are written there."""

    def __init__(self, world: Surroundings, platform: Platform, lines: Mapping[Place, list[Line]]) -> None:
        self._world = world
        self.platform = platform
        self._lines = lines
        self._pressed: list[Written] = []

    def settings(self) -> Mapping[str, str]:
        return self.platform.settings()

    def hosts(self) -> Mapping[object, Host]:
        return {self.platform.address: self.platform.host}

    def furnish(self, conn: apsw.Connection, now_ms: int) -> None:
        """A further account is in the roster."""
        if names.is_further(self.platform.account):
            accounts.declare(conn, self.platform.account, None, now_ms=now_ms)

    def work(self) -> Sequence[Work]:
        return [self._write(place, lines) for place, lines in self._lines.items()]

    def lasting(self) -> Sequence[Work]:
        return self.platform.lasting()

    def lines(self) -> Mapping[str, Line]:
        found = {line.text: line for each in self._lines.values() for line in each if not line.files}
        found |= {line.edit.text: line.edit for line in list(found.values()) if line.edit is not None}
        for line in list(found.values()):
            found |= {line.button: Line(0, line.button, (), is_loose=True)} if line.button else {}
            found |= {line.prompt: Line(0, line.prompt, (), is_loose=True)} if line.prompt else {}
        return found

    def problems(self, query: Query, *, is_history_whole: bool) -> list[str]:
        """A question is not open after a press of one of its buttons was accepted."""
        open_ = {id_ for (id_,) in query("SELECT question_id FROM questions WHERE status = 'open'")}
        pressed = {each.presses for each in self._pressed if each.accepted}
        return [f"{each} was pressed, and its question is open" for each in pressed if each.partition(".")[0] in open_]

    def counts(self, query: Query) -> Counter[str]:
        sent = Counter(query(f"SELECT platform_id, message FROM responses WHERE channel = '{self.platform.account}'"))
        arrived = self.platform.arrivals
        seen = Counter(key for each in arrived if (key := (each.chat, each.text)) in sent)  # no card, which has markup
        return Counter({
            "messages": len(self.platform.written),
            "arrivals": len(arrived),
            "arrivals doubled": (seen - sent).total(),
        })  # fmt: skip

    async def _write(self, place: Place, lines: list[Line]) -> None:
        dice = self._world.dice(f"delivery {place.mark}")
        pressing = [asyncio.create_task(self._press(place, each)) for each in lines if each.button]
        for line in lines:
            await asyncio.sleep(line.after_s)
            if line.files:
                await self._send(place, line, dice)
                continue
            self._world.tell(f"person {place.sender} writes {line.text!r}")
            written = self.platform.write(place, line.text, is_command=line.is_command)
            await self.platform.bring(written, dice)
            await self._regret(line, written, dice)
            if line.edit is not None:
                await asyncio.sleep(line.edit.after_s)
                self._world.tell(f"person {place.sender} makes {line.edit.text!r} of it")
                await self.platform.bring(self.platform.write(place, line.edit.text, edits=written), dice)
        await asyncio.gather(*pressing)

    async def _send(self, place: Place, line: Line, dice: random.Random) -> None:
        """The pieces of an album come one after another."""
        self._world.tell(f"person {place.sender} sends {[file.name for file in line.files]} with {line.text!r}")
        for piece in self.platform.send(place, line.text, line.files):
            await self.platform.bring(piece, dice)
            await asyncio.sleep(dice.choice([0, 0.05, 0.3]))
            await self._regret(line, piece, dice)

    async def _regret(self, line: Line, written: Written, dice: random.Random) -> None:
        """Delete it again, where the person regrets it."""
        if line.regret_after_s is None:
            return
        await asyncio.sleep(line.regret_after_s)
        if (deleted := self.platform.delete(written)) is not None:
            self._world.tell(f"person {written.place.sender} deletes {written.key!r}")
            await self.platform.bring(deleted, dice)

    async def _press(self, place: Place, line: Line) -> None:
        """Look for the button now and then; a question that never comes, or is over, is pressed by nobody."""
        for _ in range(_PRESSES):
            await asyncio.sleep(7)
            found = next((each for each in self.platform.arrivals if line.button in each.buttons), None)
            if found is not None:
                self._world.tell(f"person {place.sender} presses {line.button!r}")
                self._pressed.append(pressed := self.platform.press(place, found, line.button))
                await self.platform.bring(pressed, self._world.dice(line.button))
                return
