"""Which parts the world of a seed has. The seed chooses, so that many worlds have all and none has everything.

A place of one platform stands in the place of one of another: a world with both has no more people.
"""

import random
from dataclasses import replace

from tests.simulation.agents import casting
from tests.simulation.parts import Surroundings, WorldPart
from tests.simulation.people import programs
from tests.simulation.people.lines import Line, lines, places, with_files
from tests.simulation.people.programs import Client
from tests.simulation.people.writing import People
from tests.simulation.platforms import discord
from tests.simulation.platforms.base import BOT
from tests.simulation.platforms.discord import Discord
from tests.simulation.platforms.messages import Place
from tests.simulation.platforms.telegram import Telegram
from tests.simulation.pruning import Pruning

_SHARES_OF_DISCORD, _WEIGHTS = (0.0, 0.5, 1.0), (60, 20, 20)
_COMMANDS, _REGRETS = 0.3, 0.15  # of what is said in Discord
_HAS_FURTHER_BOTS, _SPEAKS_TO_FURTHER, _FURTHER = 0.2, 0.4, "sales"
_HAS_FILES, _SENDS_FILES = 0.35, 0.4  # of the worlds, and of the places there
_OF_PRUNED = (0.0, 70.0, 150.0)  # seconds after its end at which a message is repeated
_REGRETS_FILES = Place("840", None, "840")


def parts_of(world: Surroundings, seed: int, shape: random.Random) -> list[WorldPart]:
    """The parts, in the order in which they begin."""
    kinds = world.dice("kinds")
    found, share = places(shape), kinds.choices(_SHARES_OF_DISCORD, _WEIGHTS)[0]
    if kinds.random() < _HAS_FURTHER_BOTS:
        found = _with_further_bots(kinds, found)
    moved = [place for place in found if kinds.random() < share]
    files = kinds if kinds.random() < _HAS_FILES and "pruning" not in casting.chosen(seed) else None
    parts: list[WorldPart] = []
    written = {place: _written(world, place, files) for place in found if place not in moved}
    of_further = {place: written.pop(place) for place in list(written) if place.bot}
    telegram = Telegram(world)
    more, places_of = casting.agents_of(world, telegram, seed)
    written |= places_of
    if written:
        parts.append(People(world, telegram, written))
    if of_further:
        parts.append(People(world, Telegram(world, word=_FURTHER), of_further))
    there = [discord.in_place_of(place) for place in moved]
    has = casting.chosen(seed)
    regretted = _regretted(world) if "regretted files" in has else {}
    for word in ("", _FURTHER):
        spoken = {
            place: _as_in_discord(kinds, _written(world, place, files))
            for place in there
            if bool(place.bot) == bool(word)
        }
        spoken |= {} if word else regretted
        if spoken:
            parts.append(People(world, Discord(world, word=word), spoken))
    asked = programs.lines(world.dice("client"), "one", world.span_s)
    late = _OF_PRUNED if "pruning" in has else (0.0,)
    more += [Pruning(world)] if "pruning" in has else []
    return [*parts, Client(world, "one", asked, repeats_after_s=late), *more]


def _regretted(world: Surroundings) -> dict[Place, list[Line]]:
    """Files in Discord, some of which are deleted again."""
    dice, place = world.dice("regretted files"), discord.in_place_of(_REGRETS_FILES)
    waits, pauses = [None, 0.0, 0.0, 0.3, 3.0, 15.0], [0.0, 0.1]  # some come while the agent has the one before
    return {
        place: [
            replace(each, after_s=dice.choice([each.after_s, *pauses]), regret_after_s=dice.choice(waits))
            for each in with_files(dice, place, world.span_s)
        ]
    }


def _with_further_bots(dice: random.Random, found: list[Place]) -> list[Place]:
    """The places, some of them with another bot of the same platform. Where there is room, a chat has both bots."""
    moved = [place for place in found if dice.random() < _SPEAKS_TO_FURTHER]
    direct = iter([place for place in found if place not in moved and not place.is_group])
    there = [replace(place if place.is_group else next(direct, place), bot=BOT) for place in moved]
    return [place for place in found if place not in moved] + there


def _written(world: Surroundings, place: Place, files: random.Random | None) -> list[Line]:
    """What is written in a place, or sent there, where *files* are sent in this world."""
    dice = world.dice(f"place {place.mark}")
    if files is not None and files.random() < _SENDS_FILES:
        return with_files(dice, place, world.span_s)
    return lines(dice, place, world.span_s)


def _as_in_discord(dice: random.Random, found: list[Line]) -> list[Line]:
    """Some of it is said by commands, and some is deleted again."""
    return [line if line.edit is not None or line.files else _changed(dice, line) for line in found]


def _changed(dice: random.Random, line: Line) -> Line:
    kind = dice.random()
    if kind < _COMMANDS:
        return replace(line, is_command=True)
    if kind < _COMMANDS + _REGRETS and not line.is_loose:
        return replace(line, regret_after_s=dice.choice([0.0, 0.3, 3.0, 15.0]))
    return line
