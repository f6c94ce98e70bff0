"""People who write on while their agent works: the wiring of each chat says what becomes of that (``while_busy``).

The agent shows a line that tells that it works. Where the wiring waits for more of a burst, the chat has a debounce.
"""

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import apsw

from shared.queue.turns import APOLOGY
from shared.roster import agents_and_teams
from shared.turns.run.showing import progress_words
from tests.simulation.agents.thinkers import wire
from tests.simulation.parts import Query, Surroundings, WorldPart
from tests.simulation.people.lines import Line
from tests.simulation.platforms.messages import Place
from tests.simulation.platforms.telegram import Telegram

AGENT = "busy"
_MODES = ("collect", "steer", "followup", "interrupt")
_EDITED = ("collect", "followup")  # where what waits behind a turn can be changed
_FIRST_CHAT = 810
_MOST_IN_TURN = 10
_AT_ONCE_MS = 6_000  # a tick of dispatch, where a kick was lost
_HEARS_AFTER_MS = 1_000  # from the beginning of its turn
_NOTHING_HEARD = "I heard nothing."
_EVENTS = """
    SELECT e.id, e.type, e.created_at, e.session_id, e.message_id, e.data
      FROM events e
     WHERE e.agent = 'busy' AND e.type IN ('message_received', 'chain_step_start', 'chain_step_done')
     ORDER BY e.id
"""
_ROWS = """
    SELECT message_id, id, session_id, message, status, gathers_until, platform_id, trigger
      FROM messages WHERE agent = 'busy' AND kind = 'chat' ORDER BY id
"""
_LOST = "SELECT 1 FROM events WHERE type = 'message_retry' AND data ->> '$.failure' = 'process_gone' LIMIT 1"
_TROUBLED = "SELECT session_id FROM events WHERE agent = 'busy' AND type IN ('message_retry', 'message_dead')"


class _Said(NamedTuple):
    """A line, as its row tells of it."""

    id: str
    row: int
    session: int
    text: str
    status: str
    gathers_until: int | None
    chat: str
    asks: int  # 0: it is there to be known, as an edit of what was answered is


class _Turn(NamedTuple):
    """A turn that began: by which event, when, and the lines that it had; *ended_ms*: it was done then, or never."""

    event: int
    at_ms: int
    session: int
    batch: list[str]
    is_full: bool
    ended_ms: int | None = None


class Busy(WorldPart):
    """The agent, and direct chats with wirings of several kinds."""

    def __init__(self, world: Surroundings, platform: Telegram) -> None:
        dice = world.dice("busy")
        self._world = world
        self._platform = platform
        chosen = dice.sample(_MODES, dice.randint(2, len(_MODES)))
        self._modes = {Place(str(chat), None, str(chat)): mode for chat, mode in enumerate(chosen, _FIRST_CHAT)}
        self._pauses_ms = {place: dice.choice([0, 0, 500, 2_000, 8_000]) for place in self._modes}
        self.written = {place: _lines(dice, place, mode, world.span_s) for place, mode in self._modes.items()}
        edits = world.dice("edits of busy")
        for place, mode in self._modes.items():
            if mode in _EDITED:
                self.written[place] = [_may_be_edited(edits, each) for each in self.written[place]]

    def furnish(self, conn: apsw.Connection, now_ms: int) -> None:
        settings = {"concurrency": len(_MODES), "batch_size": _MOST_IN_TURN, "progress": True}
        agents_and_teams.save_agent(conn, AGENT, settings, now_ms=now_ms)
        for place, mode in self._modes.items():
            wire(conn, place, AGENT, now_ms, {"while_busy": mode, "debounce_ms": self._pauses_ms[place]})

    def problems(self, query: Query, *, is_history_whole: bool) -> list[str]:
        """What a wiring says of lines that come while the agent works is what happens; and its line goes away."""
        said = {row[0]: _Said(*row) for row in query(_ROWS)}
        modes = {place.chat: mode for place, mode in self._modes.items()}
        problems = [*_heard_once(query, said, modes), *_removed(query, self._platform)]
        if not is_history_whole:
            return problems  # turns of which no event tells
        received, turns = _story(query, said)
        failed = {session for (session,) in query(_TROUBLED)}  # where a line may go alone
        problems += _apart(turns, said, modes)
        problems += _together([each for each in turns if each.session not in failed], received, said, modes)
        problems += _gathered(turns, said) if self._world.is_clock_steady else []
        is_calm = self._world.is_calm and not query(_LOST)  # else messages that may kill dispatch go one by one
        problems += _at_once(turns, received, said, modes) if is_calm else []
        return problems


def _story(query: Query, said: dict[str, _Said]) -> tuple[dict[str, tuple[int, int]], list[_Turn]]:
    """Event and instant at which each line was received, and the turns that had some; a turn may also have been told
    of an answer that did not arrive.
    """
    received: dict[str, tuple[int, int]] = {}
    turns: list[_Turn] = []
    for event, kind, at_ms, session, message_id, data in query(_EVENTS):
        if kind == "message_received":
            received[message_id] = event, at_ms
        elif kind == "chain_step_start":
            batch = json.loads(data)["batch"]
            lines = [id_ for id_ in batch if id_ in said]
            turns.append(_Turn(event, at_ms, session, lines, len(batch) == _MOST_IN_TURN))
        else:
            last = max(at for at, turn in enumerate(turns) if turn.session == session)
            turns[last] = turns[last]._replace(ended_ms=at_ms)
    return received, [turn for turn in turns if turn.batch]


def _apart(turns: Sequence[_Turn], said: dict[str, _Said], modes: dict[str, str]) -> Iterator[str]:
    """``followup``: each line has a turn of its own."""
    for turn in turns:
        asked = [id_ for id_ in turn.batch if said[id_].asks]
        if len(asked) > 1 and modes[said[asked[0]].chat] == "followup":
            yield f"the turn of {asked} has several lines, and each was to have its own"


def _together(
    turns: Sequence[_Turn], received: dict[str, tuple[int, int]], said: dict[str, _Said], modes: dict[str, str]
) -> Iterator[str]:
    """Otherwise what waits goes into the next turn together."""
    for turn in turns:
        last = said[turn.batch[-1]]
        if modes[last.chat] == "followup" or turn.is_full:
            continue
        left = [
            each.text
            for each in said.values()
            if each.session == turn.session and each.row > last.row and received[each.id][0] < turn.event
        ]
        if left:
            yield f"the turn of {turn.batch} left out {left}, which waited"


def _gathered(turns: Sequence[_Turn], said: dict[str, _Said]) -> Iterator[str]:
    """A burst waits until its sender has been still for a while. By a clock that nobody set."""
    begun = {turn.batch[0]: turn.at_ms for turn in turns}
    for id_, at_ms in begun.items():
        until_ms = said[id_].gathers_until
        if until_ms is not None and at_ms < until_ms:
            yield f"the turn of {said[id_].text!r} began {until_ms - at_ms} ms before its burst was over"


def _at_once(
    turns: Sequence[_Turn], received: dict[str, tuple[int, int]], said: dict[str, _Said], modes: dict[str, str]
) -> Iterator[str]:
    """Where nothing goes wrong: a line that interrupts is in a turn at once, and an agent that listens hears it.

    A turn that has all the lines it may have is not interrupted: the next one would have the same.
    """
    first: dict[str, _Turn] = {}
    for turn in turns:
        for id_ in turn.batch:
            first.setdefault(id_, turn)
    for id_, turn in first.items():
        if modes[said[id_].chat] == "interrupt":
            full = [
                each.ended_ms
                for each in turns
                if each.session == turn.session and each.event < turn.event and each.is_full
            ]
            bursts = [said[each].gathers_until for each in turn.batch]
            due_ms = max(received[id_][1], *(at_ms or 0 for at_ms in (*full, *bursts)))
            if turn.at_ms - due_ms > _AT_ONCE_MS:
                yield f"{said[id_].text!r} interrupted nothing for {turn.at_ms - due_ms} ms"
        elif modes[said[id_].chat] == "steer" and turn.ended_ms is not None and said[id_].text.startswith("!listen"):
            from_ms, until_ms = turn.at_ms + _HEARS_AFTER_MS, turn.ended_ms - _AT_ONCE_MS
            unheard = [
                each.text
                for each in said.values()
                if each.session == turn.session and from_ms < received[each.id][1] < until_ms
            ]
            if unheard and len(turn.batch) == 1:
                yield f"{said[id_].text!r} did not hear {unheard}"


def _heard_once(query: Query, said: dict[str, _Said], modes: dict[str, str]) -> Iterator[str]:
    """``steer``: the turn that hears a line answers it, or it has an answer of its own; never both, and never none."""
    answers: dict[str, list[str]] = defaultdict(list)
    heard: dict[str, list[str]] = defaultdict(list)  # by chat
    for id_, chat, text in query(
        "SELECT message_id, r.platform_id, r.message FROM responses r JOIN messages m USING (message_id)"
        " WHERE m.agent = 'busy' ORDER BY r.id"
    ):
        answers[id_].append(text)
        heard[chat] += re.findall(r"\bc\w+n\d+\b", text) if text.startswith("I heard: ") else []
    for each in said.values():
        if modes[each.chat] != "steer":
            continue
        got, is_heard = answers[each.id], heard[each.chat].count(each.text.rpartition(" ")[2])
        if each.status == "dead":
            fits = got == [APOLOGY] and not is_heard
        elif is_heard or not got:
            fits = (got, is_heard) == ([], 1)
        elif each.text.startswith("!listen"):
            fits = len(got) == 1 and (got[0] == _NOTHING_HEARD or got[0].startswith("I heard: "))
        else:
            fits = got == [f"You said: {each.text}"]
        if not fits:
            yield f"{each.text!r} is {each.status}, was heard {is_heard} times, and got {got}"


def _removed(query: Query, platform: Telegram) -> Iterator[str]:
    """The line that tells that the agent works is gone, where its removal went through."""
    found = query(
        "SELECT shown.platform_id, shown.platform_message_id"
        " FROM responses r JOIN responses shown ON shown.id = r.content ->> 'removes'"
        " WHERE r.status = 'acked' AND shown.status = 'acked'"
    )
    for chat, number in found:
        if (chat, number) not in platform.removed:
            yield f"the line {number} in {chat} still tells that the agent works"
    left = query(
        "SELECT r.id, r.platform_id FROM responses r"
        f" WHERE r.status = 'acked' AND r.message = '{progress_words.of([])}'"
        " AND NOT EXISTS (SELECT 1 FROM responses removal WHERE removal.content ->> 'removes' = r.id)"
    )
    yield from (f"nothing removes the line in {chat} that tells that the agent works ({id_})" for id_, chat in left)


def _lines(dice: random.Random, place: Place, mode: str, span_s: float) -> list[Line]:
    """Each time, a line that keeps the agent busy, and some that come meanwhile."""
    times = dice.randint(1, 3)
    made: list[Line] = []
    for _ in range(times):
        mark = f"{place.mark}n{len(made)}"
        after_s, lasts_s = dice.uniform(0, span_s / times), dice.randint(5, 30)
        if mode == "steer":
            made.append(Line(after_s, f"!listen {lasts_s} {mark}", (), is_loose=True))
        else:
            made.append(Line(after_s, f"!slow {lasts_s} {mark}", (mark,)))
        for _ in range(dice.randint(1, 4)):
            mark = f"{place.mark}n{len(made)}"
            answers = () if mode == "steer" else (f"You said: {mark}",)
            made.append(Line(dice.choice([0.1, 0.5, 1.5, 4.0]), mark, answers, is_loose=mode == "steer"))
    return made


def _may_be_edited(dice: random.Random, line: Line) -> Line:
    """Some of the lines that come while the agent works are changed while they wait."""
    if line.text.startswith("!") or dice.random() < 0.7:
        return line
    text = f"{line.text}e"
    return replace(line, edit=Line(dice.choice([0.1, 1.0]), text, (f"You said: {text}",)))
