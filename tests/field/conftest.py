"""One world for all scenarios, and what becomes of it in one kill.

``FIELD_SYSTEM=package.module:Class`` names the adapter of the system under trial; without it, that is Postroom's own.
"""

import importlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.field.postroom import Postroom
from tests.field.reports import needs_of
from tests.field.systems import System
from tests.field.world import Person, World


def chosen() -> Callable[[Path], System]:
    """The adapter that the environment names."""
    named = os.environ.get("FIELD_SYSTEM")
    if not named:
        return Postroom
    module, _, name = named.partition(":")
    found: Callable[[Path], System] = getattr(importlib.import_module(module), name)
    return found


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what does not apply to the system."""
    offers = chosen().offers  # type: ignore[attr-defined]
    missing = [each for each in items if needs_of(each) - offers]
    if missing:
        config.hook.pytest_deselected(items=missing)
        items[:] = [each for each in items if each not in missing]


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A running system and all that is around it."""
    folder = tmp_path_factory.mktemp("field")
    (folder / "system").mkdir()
    found = World(chosen()(folder / "system"), folder / "platforms")
    try:
        found.begin()
        yield found
    finally:
        found.close()


@dataclass(frozen=True, slots=True)
class Killed:
    """People who wrote before everything was killed, or meanwhile; the system runs again, and is idle.

    Attributes:
        running: the model was working on this person's message.
        waiting: the same person's next message was accepted, and its turn had not begun.
        refused: this person's answer was there, and the platform was not.
        away: this person wrote while nothing ran.
        known: this person had an answer; then Telegram delivered the same update again.
        spoken: the agent had said something to this person, and its turn was not over.
    """

    running: Person
    refused: Person
    away: Person
    known: Person
    spoken: Person


@pytest.fixture(scope="session")
def killed(world: World) -> Killed:
    """Everything was killed once, and started again."""
    running, refused, away, known, spoken = (world.person() for _ in range(5))
    again = known.says("known before the kill")
    known.hears("known before the kill")
    with world.model.hold("of a running turn"):
        running.says("of a running turn")
        world.model.is_asked("of a running turn")
        running.says("accepted and waiting")
        if "tools" in world.system.offers:
            spoken.says(f"{world.system.speak('halfway there')} [[hang]]")
            spoken.hears("halfway there")
        with world.fault("status", status=502, method="sendMessage", chat=refused.id):
            refused.says("[[say of no platform]]")
            world.is_refused(refused.id)
            world.delivered()
            world.system.kill()
    away.says("nobody was there")
    world.redeliver(again)
    world.system.start(world.around)
    world.settle()
    return Killed(running, refused, away, known, spoken)
