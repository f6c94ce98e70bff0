"""An agent that sends albums: a person names one of its skills, and the skill says which files of its outbox to send.

The agent's program would have written them; here they are there from the beginning.
"""

import random
from collections.abc import Mapping
from pathlib import Path

import apsw

from shared.agents import session_files, skills
from shared.db.engine.connection import rows
from shared.db.queue import sessions
from shared.roster import agents_and_teams
from tests.simulation.agents.thinkers import wire
from tests.simulation.parts import Query, Surroundings, WorldPart
from tests.simulation.people.lines import Line
from tests.simulation.platforms.messages import Place, SentFile
from tests.simulation.platforms.telegram import Telegram

AGENT = "sender"
_FOLDER = Path("agents") / AGENT
_PLACE = Place("830", None, "830")


class Senders(WorldPart):
    """The agent, and a direct chat in which it sends albums."""

    def __init__(self, world: Surroundings, platform: Telegram) -> None:
        dice = world.dice("senders")
        self._platform = platform
        count = dice.randint(1, 4)
        marks = [f"{_PLACE.mark}n{number}" for number in range(count)]
        self._albums = {mark: _album(dice, mark) for mark in marks}
        self.written = {_PLACE: [_line(dice, mark, world.span_s / count) for mark in marks]}
        for album in self._albums.values():
            platform.files |= {file.name: file for file in album}

    def furnish(self, conn: apsw.Connection, now_ms: int) -> None:
        agents_and_teams.save_agent(conn, AGENT, {"batch_size": 1}, now_ms=now_ms)
        chat = wire(conn, _PLACE, AGENT, now_ms)
        row = sessions.ensure(conn, AGENT, chat, None, now_ms=now_ms)
        ((session,),) = rows(conn, "SELECT session_id FROM sessions WHERE id = :id", {"id": row})
        outbox = session_files.folder_of(_FOLDER, session, session_files.OUTBOX)
        outbox.mkdir(parents=True)
        for mark, album in self._albums.items():
            skill = _FOLDER / skills.FOLDER / mark / skills.FILE
            skill.parent.mkdir(parents=True)
            skill.write_text("\n".join([f"{mark}a", *(f"[send_file: {file.name}]" for file in album)]))
            for file in album:
                (outbox / file.name).write_bytes(file.content)

    def problems(self, query: Query, *, is_history_whole: bool) -> list[str]:
        """What arrived below the words of an answer is its album, whole and in order."""
        return [
            f"{each.text!r} arrived with the files {list(each.files)}, not {expected[each.text]}"
            for expected in [_names(self._albums)]
            for each in self._platform.arrivals
            if each.text in expected and list(each.files) != expected[each.text]
        ]


def _names(albums: Mapping[str, list[SentFile]]) -> dict[str, list[str]]:
    return {f"{mark}a": [file.name for file in album] for mark, album in albums.items()}


def _album(dice: random.Random, mark: str) -> list[SentFile]:
    count = dice.choice([1, 2, 3, 10])
    return [SentFile(f"{mark}f{at}.bin", dice.choice([40, 9_000, 70_000])) for at in range(count)]


def _line(dice: random.Random, mark: str, most_s: float) -> Line:
    return Line(dice.uniform(0, most_s), f"!skill {mark}", (f"{mark}a",))
