"""An agent of the provider ``api`` whose model hangs, breaks off or takes dispatch down, and people who write to it."""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import apsw

from shared.db.roster import chats
from shared.queue.turns import APOLOGY
from shared.roster import agents_and_teams, wirings
from shared.turns.run.agent_run import BEGUN_ANEW
from tests.simulation.agents.models import Models
from tests.simulation.machine.wires import Host
from tests.simulation.parts import Query, Surroundings, WorldPart
from tests.simulation.people.lines import Line
from tests.simulation.platforms.messages import Place

AGENT = "thinker"
_NEVER = {"turn_timeout_ms": 36_000_000, "idle_timeout_ms": 36_000_000}  # longer than a world: the other limit must do


_OF_HOST = ("network", "overloaded", "rate_limited", "malformed", "idle_timeout", "turn_timeout")
_MOST_ATTEMPTS, _OF_OTHERS = 5, 1  # how many of the attempts something else may have cost


class Thinkers(WorldPart):
    """The agent, its model, and the direct chats in which it answers. *is_moody*: the host of its model has faults."""

    def __init__(self, world: Surroundings, *, is_moody: bool = False) -> None:
        dice = world.dice("thinkers")
        self.is_moody = is_moody
        self.models = Models(world.dice("model"), lambda: world.kill("dispatch"))
        self.written = {place: lines(dice, place, world.span_s) for place in places(dice)}
        self._promised = {line.text: line.answers for each in self.written.values() for line in each}
        if is_moody:
            self.written = {place: [_may_die(line) for line in each] for place, each in self.written.items()}
        self._limits = _NEVER | dice.choice([{"turn_timeout_ms": 20_000}, {"idle_timeout_ms": 15_000}])

    def furnish(self, conn: apsw.Connection, now_ms: int) -> None:
        settings = {
            "provider": "api",
            "model": "scripted-1",
            "config": {"models": "local", "history_bytes": 20_000},
            "batch_size": 1,  # so that each message has an answer of its own
            "concurrency": 2,
            **self._limits,
        }
        agents_and_teams.save_agent(conn, AGENT, settings, now_ms=now_ms)
        for place in self.written:
            wire(conn, place, AGENT, now_ms)

    def settings(self) -> Mapping[str, str]:
        return {"POSTROOM_LOCAL_MODELS_URL": Models.URL}

    def hosts(self) -> Mapping[object, Host]:
        return {Models.ADDRESS: self.models.host}

    def problems(self, query: Query, *, is_history_whole: bool) -> list[str]:
        """A model that is silent is given up by the limit of its agent, and not by one that happens to come later."""
        found = query(
            "SELECT m.message, e.data ->> 'failure' FROM events e JOIN messages m USING (message_id)"
            f" WHERE m.agent = '{AGENT}' AND e.type IN ('message_retry', 'message_dead')"
        )
        late = [text for text, failure in found if text.startswith("[[hang") and failure == "network"]
        if self.is_moody:
            return _answered(query, self._promised, Counter(text for text, why in found if why in _OF_HOST))
        return [f"{text!r} was not ended by the limit of its agent" for text in late]

    def counts(self, query: Query) -> Counter[str]:
        return Counter({f"model: {name}": count for name, count in self.models.told.items()})


def _may_die(line: Line) -> Line:
    return replace(line, is_loose=True)


def _answered(query: Query, promised: Mapping[str, tuple[str, ...] | None], failed: Counter[str]) -> list[str]:
    """What an agent answers is what its model says; what is dead had no host that worked, as often as it was tried."""
    problems, said = [], defaultdict(list)
    for id_, text in query(
        "SELECT message_id, r.message FROM responses r JOIN messages m USING (message_id)"
        f" WHERE m.agent = '{AGENT}' ORDER BY r.id"
    ):
        said[id_].append(text.removesuffix(f"\n\n{BEGUN_ANEW}"))
    for id_, text, status in query(f"SELECT message_id, message, status FROM messages WHERE agent = '{AGENT}'"):
        answers, got = promised.get(text, ()), said[id_]
        if answers == ():
            continue  # its turn speaks while it runs
        if status == "completed" and got != list(answers or ()):
            problems.append(f"{text!r} is completed with the answers {got}")
        elif status == "dead" and got != [APOLOGY]:
            problems.append(f"{text!r} is dead, and its sender got {got}")
        elif status == "dead" and answers is not None and failed[text] < _MOST_ATTEMPTS - _OF_OTHERS:
            problems.append(f"{text!r} is dead, and its model failed {failed[text]} times")
    return problems


def wire(conn: apsw.Connection, place: Place, agent: str, now_ms: int, changes: Mapping[str, Any] | None = None) -> int:
    """Let the *agent* answer in this direct chat, whose row it returns. *changes*: a ``WiringChange``."""
    chat = chats.ensure(
        conn,
        "telegram",
        place.chat,
        is_group=False,
        name=f"P{place.sender}",
        sender_policy="public",
        now_ms=now_ms,
    )
    wirings.connect(conn, chat.id, agent, changes, now_ms=now_ms)
    return chat.id


def places(dice: random.Random) -> list[Place]:
    """Direct chats with the agent."""
    return [Place(str(chat), None, str(chat)) for chat in range(700, 701 + dice.randint(0, 2))]


def lines(dice: random.Random, place: Place, span_s: float) -> list[Line]:
    """What a person writes to the agent, as a script for its model."""
    count = dice.randint(1, 4)
    return [_line(dice, f"{place.mark}n{number}", dice.uniform(0, span_s / count)) for number in range(count)]


def _line(dice: random.Random, mark: str, after_s: float) -> Line:
    answered, said = (mark,), f"[[say {mark}]]"
    asks = {"question": f"{mark}?", "options": [f"{mark}yes", f"{mark}no"]}
    kinds = {
        Line(after_s, said, answered): 30,
        Line(after_s, f"[[hang times={dice.randint(1, 2)}]] {said}", answered): 15,
        Line(after_s, f"[[hang]] {said}", None): 5,
        Line(after_s, f"[[die times={dice.randint(1, 3)}]] {said}", answered): 15,
        Line(after_s, f"[[die]] {said}", None): 2,
        Line(after_s, f"[[{dice.choice(['status 529', 'cut'])} times=1]] {said}", answered): 10,
        _spoken(after_s, f"{_posts(mark)} [[{dice.choice(['die', 'hang', 'status 529'])} times=1]] {said}"): 13,
        _spoken(after_s, f"[[tool ask_user_question {json.dumps(asks)}]] {said}", button=f"{mark}yes"): 10,
    }
    return dice.choices(list(kinds), list(kinds.values()))[0]


def _posts(mark: str) -> str:
    return f"[[tool send_message {json.dumps({'text': f'{mark}s'})}]]"


def _spoken(after_s: float, text: str, *, button: str = "") -> Line:
    return Line(after_s, text, (), is_loose=True, button=button)
