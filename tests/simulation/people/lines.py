"""The people of the world: each place is a chat or a topic in which one person writes a few lines, in order."""

import json
import random
from dataclasses import dataclass

from tests.simulation.platforms.messages import Place, SentFile


@dataclass(frozen=True, slots=True)
class Line:
    """What a person writes after a pause, and what becomes of it.

    Attributes:
        answers: what an agent answers to it in the end; None: nothing, its sender gets an apology.
        edit: what the person makes of it a moment later; the agent may have taken either by then.
        is_loose: its turn speaks while it runs, and ends as it may: nothing is said twice, that is all.
        button: what the person presses below an answer.
        prompt: of the schedule that it makes.
        is_command: where the platform has commands, it is said by one.
        regret_after_s: the person deletes it then, where the platform tells of that.
        files: what is sent with it; ``files`` then says what must become of it.
    """

    after_s: float
    text: str
    answers: tuple[str, ...] | None
    edit: "Line | None" = None
    is_loose: bool = False
    button: str = ""
    prompt: str = ""
    is_command: bool = False
    regret_after_s: float | None = None
    files: tuple[SentFile, ...] = ()


def places(dice: random.Random) -> list[Place]:
    """Where people write: direct chats, groups, and topics of a group. A person may be in several."""
    found = [Place(str(chat), None, str(chat)) for chat in range(100, 101 + dice.randint(0, 8))]
    for group in range(900, 900 + dice.choice([0, 0, 1, 2])):
        threads = dice.choice([(None,), ("17", "18"), ("17", "18", "19")])
        found += [Place(f"-{group}", thread, str(dice.randint(100, 110)), is_group=True) for thread in threads]
    return found


def lines(dice: random.Random, place: Place, span_s: float, *, first: int = 0, habit: str = "") -> list[Line]:
    """What the person of *place* writes there. Each text has a mark, by which it is found again.

    Args:
        first: the number in the first mark.
        habit: of the person; the dice choose it where it is empty.
    """
    count, pace = dice.randint(1, 10), dice.choice([1, 1, 1, 0.02])  # some write all at once
    if not habit:
        habit = "plain" if place.is_group else dice.choices(["plain", "speaks", "acts"], [70, 15, 15])[0]
    made: list[Line] = []
    for number in range(first, first + count):
        mark, after_s = f"{place.mark}n{number}", dice.expovariate(count / span_s) * pace
        if habit == "plain":
            made.append(_plain(dice, place, mark, after_s))
        else:
            made += (_speaking if habit == "speaks" else _acting)(dice, mark, after_s)
    return made


def _plain(dice: random.Random, place: Place, mark: str, after_s: float) -> Line:
    both = Line(after_s, f"!say {mark}a | {mark}b", (f"{mark}a", f"{mark}b"))
    if place.is_group:
        return both
    kinds = {
        _echo(mark, after_s): 50,
        both: 10,
        Line(after_s, f"!slow {dice.choice([dice.randint(1, 40), 90])} {mark}", (mark,)): 12,
        Line(after_s, f"!fail {dice.randint(1, 3)} {mark}", (mark,)): 12,
        Line(after_s, dice.choice([f"!fail 99 {mark}", f"!reject {mark}"]), None): 6,
        Line(after_s, mark, (f"You said: {mark}",), edit=_echo(f"{mark}e", dice.uniform(0, 3))): 10,
    }
    return dice.choices(list(kinds), list(kinds.values()))[0]


# A turn that speaks or acts while it runs is not run again. All messages that it took end with it, in one sentence.


def _speaking(_: random.Random, mark: str, after_s: float) -> list[Line]:
    """While the first runs, the others come: the turn that takes them speaks, and then fails."""
    return [_loose(after_s, f"!slow 5 {mark}"), _loose(0.1, f"!post {mark}s"), _loose(0.1, f"!fail 99 {mark}f")]


def _acting(dice: random.Random, mark: str, after_s: float) -> list[Line]:
    """A question with buttons, a schedule, or a line that may come to the same turn."""
    task = {"prompt": f"!say {mark}s", "cron": "*/2 * * * *", "misfire": dice.choice(["coalesce", "catch_up"])}
    return [
        dice.choice([
            _loose(after_s, mark),
            _loose(after_s, f"!ask {mark}? | {mark}yes | {mark}no", button=f"{mark}yes"),
            _loose(after_s, f"!tool schedule_task {json.dumps(task)}", prompt=task["prompt"]),
        ])
    ]  # fmt: skip


def with_files(dice: random.Random, place: Place, span_s: float) -> list[Line]:
    """A file or an album: the agent says what came, or sends the first of them back."""
    count = dice.randint(1, 5)
    made = []
    for number in range(count):
        mark = f"{place.mark}n{number}"
        is_photo = dice.random() < 0.5
        sizes = [dice.choice([0, 40, 9_000, 9_000, 40_000, 300_000]) for _ in range(dice.choice([1, 1, 2, 3, 5]))]
        files = tuple(SentFile(f"{mark}f{at}.bin", size, is_photo) for at, size in enumerate(sizes))
        text = dice.choice([mark, mark, "!file"])
        made.append(Line(dice.expovariate(count / span_s), text, None, files=files))
    return made


def _loose(after_s: float, text: str, *, button: str = "", prompt: str = "") -> Line:
    return Line(after_s, text, (), is_loose=True, button=button, prompt=prompt)


def _echo(mark: str, after_s: float) -> Line:
    return Line(after_s, mark, (f"You said: {mark}",))
