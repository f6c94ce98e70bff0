"""An agent that wants what an owner must allow: another agent, other instructions for itself, or a yes in its turn."""

import json
import random
from collections import Counter
from typing import Any, NamedTuple

import apsw

from shared.roster import agents_and_teams
from tests.simulation.agents.owners import Owner
from tests.simulation.agents.thinkers import wire
from tests.simulation.parts import Query, Surroundings, WorldPart
from tests.simulation.people.lines import Line
from tests.simulation.platforms.messages import Place

AGENT = "clerk"
_MAY = "I may: "


class _Yes(NamedTuple):
    """What was approved: an action, or a tool of a running turn, with its arguments."""

    id: str
    what: str
    arguments: dict[str, Any]


class Clerks(WorldPart):
    """The agent, and the direct chats in which people tell it what to ask for."""

    def __init__(self, world: Surroundings, owner: Owner) -> None:
        dice = world.dice("clerks")
        self._owner = owner
        places = [Place(str(chat), None, str(chat)) for chat in range(600, 601 + dice.randint(0, 1))]
        self.written = {place: _lines(dice, place, world.span_s) for place in places}

    def furnish(self, conn: apsw.Connection, now_ms: int) -> None:
        settings = {"config": {"tools": "all"}, "batch_size": 1, "concurrency": 2}
        agents_and_teams.save_agent(conn, AGENT, settings, now_ms=now_ms)
        for place in self.written:
            wire(conn, place, AGENT, now_ms)

    def problems(self, query: Query, *, is_history_whole: bool) -> list[str]:
        """P10: what was approved was done, once, as a card had shown it; and nothing else was done."""
        found = query(
            "SELECT approval_id, ifnull(payload ->> 'action', payload ->> 'tool'), payload ->> 'arguments'"
            f" FROM approvals WHERE agent = '{AGENT}' AND status = 'approved' AND kind != 'budget' ORDER BY id"
        )
        yes = [_Yes(id_, what, json.loads(arguments)) for id_, what, arguments in found]
        return [*_made(query, yes), *_changed(query, yes), *_allowed(query, yes), *self._unseen(yes)]

    def _unseen(self, yes: list[_Yes]) -> list[str]:
        """A card showed each argument of what was approved."""
        cards = {data.partition(".")[0]: card.text for card in self._owner.cards for data in card.buttons.values()}
        return [
            f"{each.id} was approved, and its card did not show {value!r}"
            for each in yes
            for value in each.arguments.values()
            if str(value) not in cards.get(each.id, "")
        ]


def _made(query: Query, yes: list[_Yes]) -> list[str]:
    """Each agent that was made has a yes of its own, and the instructions of that."""
    wanted = Counter(
        (each.arguments["name"], each.arguments["instructions"]) for each in yes if each.what == "create_agent"
    )
    made = Counter(query("SELECT name, instructions FROM agents WHERE name LIKE 'c6%'"))
    differing = [each for each in wanted | made if wanted[each] != made[each]]
    return [f"{each} was approved {wanted[each]} times, and made {made[each]} times" for each in differing]


def _changed(query: Query, yes: list[_Yes]) -> list[str]:
    """Its instructions are some that were approved; where one change was, they are those."""
    wanted = [each.arguments["instructions"] for each in yes if each.what == "change_instructions"]
    ((now,),) = query(f"SELECT instructions FROM agents WHERE id = '{AGENT}'")
    allowed = wanted if len(wanted) == 1 else ["", *wanted]
    return [] if now in (allowed or [""]) else [f"its instructions are {now!r}, and approved were {wanted}"]


def _allowed(query: Query, yes: list[_Yes]) -> list[str]:
    """A turn did what needs a yes only with one."""
    wanted = [each.arguments["what"] for each in yes if each.what == "may"]
    said = query(f"SELECT message FROM responses WHERE message LIKE '{_MAY}%'")
    return [f"{text!r} was said without a yes" for (text,) in said if text.removeprefix(_MAY) not in wanted]


def _lines(dice: random.Random, place: Place, span_s: float) -> list[Line]:
    """What a person tells the agent, which does as it is told."""
    count = dice.randint(1, 4)
    return [_line(dice, f"{place.mark}n{number}", dice.uniform(0, span_s / count)) for number in range(count)]


def _line(dice: random.Random, mark: str, after_s: float) -> Line:
    other = {"name": f"{mark}a", "instructions": f"{mark}i"}
    kinds = {
        f"!tool create_agent {json.dumps(other)}": 40,
        f"!tool change_instructions {json.dumps({'instructions': f'{mark}i'})}": 20,
        f"!may {mark}m": 40,
    }
    return Line(after_s, dice.choices(list(kinds), list(kinds.values()))[0], (), is_loose=True)
