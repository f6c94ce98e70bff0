"""A team whose members hand work over to each other, some within a time, some in a ring, and answer in their room."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence

import apsw

from shared.queue.turns import APOLOGY
from shared.roster import agents_and_teams
from tests.simulation.agents.thinkers import wire
from tests.simulation.machine.process import Reset
from tests.simulation.parts import Query, Surroundings, Work, WorldPart
from tests.simulation.people import programs
from tests.simulation.people.lines import Line
from tests.simulation.platforms.messages import Place

TEAM, LEADER, MEMBERS = "crew", "alice", ("alice", "bob", "carl")
_MOST_OF_CHAIN, _MOST_HOPS = 30, 9
_RING = 14  # members that are to write to the next one: more than hops allow
_QUESTIONS = """
    SELECT q.message_id, q.thread_id, q.agent, q.message, q.status,
           (SELECT count(*) FROM messages a WHERE a.reply_to = q.id),
           (SELECT w.status FROM messages w WHERE w.id = q.content ->> 'deadline')
      FROM messages q
     WHERE q.channel = 'internal' AND q.from_agent IS NOT NULL AND q.content ->> 'is_answer' IS NULL
       AND q.msg_type IN ('message', 'task') AND q.status IN ('completed', 'dead')
"""
_WAKES = """
    SELECT q.message_id, w.message_id, w.agent FROM messages q JOIN messages w ON w.id = q.content ->> 'deadline'
"""
_STEPS = """
    SELECT id, type, session_id, data FROM events WHERE type IN ('chain_step_start', 'chain_step_done') ORDER BY id
"""
_ANSWERS = """
    SELECT a.message, p.message_id
      FROM messages a JOIN messages q ON q.id = a.reply_to JOIN messages p ON p.message_id = a.content ->> 'origin'
     WHERE a.status = 'completed' AND a.agent = '{leader}' AND p.channel = 'telegram' AND q.thread_id = p.message_id
"""


class Teams(WorldPart):
    """The team, a person who writes to its leader, and a program that says something in its room."""

    def __init__(self, world: Surroundings) -> None:
        dice = world.dice("teams")
        self._world = world
        place = Place("300", None, "300")
        self.written = {place: _lines(dice, place, world.span_s)}
        self._said = [f"r{number}" for number in range(dice.randint(0, 3))]

    def settings(self) -> dict[str, str]:
        return {"POSTROOM_CHAIN_LIMIT": str(_MOST_OF_CHAIN)}

    def furnish(self, conn: apsw.Connection, now_ms: int) -> None:
        for agent in MEMBERS:
            settings = {"config": {"tools": "all"}, "batch_size": 1, "concurrency": 2}
            agents_and_teams.save_agent(conn, agent, settings, now_ms=now_ms)
        agents_and_teams.save_team(conn, TEAM, {"agents": list(MEMBERS), "leader": LEADER}, now_ms=now_ms)
        for place in self.written:
            wire(conn, place, LEADER, now_ms)

    def work(self) -> Sequence[Work]:
        return [self._say()]

    async def _say(self) -> None:
        """Say each line until it is taken; one whose answer is lost may then stand there twice."""
        dice = self._world.dice("room")
        for text in self._said:
            await asyncio.sleep(dice.uniform(0, self._world.span_s / len(self._said)))
            status = 0
            while status != 200:
                status = await self._post(text)
                await asyncio.sleep(0 if status == 200 else 2)

    async def _post(self, text: str) -> int:
        body = json.dumps({"message": text}).encode()
        try:
            return (await self._world.ask("api", "POST", f"/api/chatroom/{TEAM}", programs.HEADERS, body)).status
        except Reset:
            return 0

    def problems(self, query: Query, *, is_history_whole: bool) -> list[str]:
        """Each question between agents has one answer, each ring an end, and each wake a reason."""
        return [*_answered(query), *_ended(query), *_told(query), *_in_room(query, self._said)]


def _answered(query: Query) -> list[str]:
    """Each question has an answer, and one more for each answer to what was asked because of it: it is passed on."""
    problems, found = [], query(_QUESTIONS)
    passed_on: Counter[str] = Counter()
    for _, because, *_, count, _ in found:
        passed_on[because] += count
    for id_, _, agent, text, status, count, wake in found:
        if count != 1 + passed_on[id_]:
            problems.append(f"{text!r} to {agent} is {status}, and has {count} answers, not {1 + passed_on[id_]}")
        if wake == "pending":
            problems.append(f"{text!r} to {agent} is answered, and whoever asked is still to be woken")
    early = query(
        "SELECT w.id FROM messages w JOIN messages q ON q.content ->> 'deadline' = w.id"
        " WHERE w.status = 'cancelled' AND NOT EXISTS (SELECT 1 FROM messages a WHERE a.reply_to = q.id)"
    )
    problems += _woken_late(query)
    return [*problems, *(f"wake {row} was cancelled, and there is no answer" for (row,) in early)]


def _woken_late(query: Query) -> list[str]:
    """Nobody is woken for what has been answered: its turn had ended when the wake began."""
    running: dict[int, list[str]] = {}
    begun: dict[str, int] = {}
    ended: dict[str, int] = {}
    for number, step, session, data in query(_STEPS):
        if step == "chain_step_done":
            ended.update((id_, number) for id_ in running.pop(session, []))
        else:
            running[session] = json.loads(data)["batch"]
            for id_ in running[session]:
                begun.setdefault(id_, number)
    return [
        f"{agent} was woken by {wake} for what was answered already"
        for question, wake, agent in query(_WAKES)
        if begun.get(wake, 0) > ended.get(question, 2**63)
    ]


def _ended(query: Query) -> list[str]:
    """Agents among themselves come to an end: by hops, and by messages of one origin. Answers are never refused."""
    asked = query(
        "SELECT message, content ->> 'hops' FROM messages WHERE msg_type IN ('message', 'task')"
        f" AND content ->> 'is_answer' IS NULL AND content ->> 'hops' > {_MOST_HOPS}"
    )
    crowded = query(
        "SELECT content ->> 'origin', count(*) FROM messages"
        " WHERE from_agent IS NOT NULL AND msg_type IN ('message', 'task')"
        f" AND content ->> 'is_answer' IS NULL GROUP BY 1 HAVING count(*) > {_MOST_OF_CHAIN}"
    )
    return [
        *(f"{text!r} is {count} hops away from its origin" for text, count in asked),
        *(f"{count} messages were sent because of {origin}" for origin, count in crowded),
    ]


def _told(query: Query) -> list[str]:
    """What the leader says about an answer goes to the person who asked, once."""
    said = Counter(query("SELECT message, message_id FROM responses WHERE channel = 'telegram'"))
    expected = Counter((f"You said: {text}", id_) for text, id_ in query(_ANSWERS.format(leader=LEADER)))
    return [
        f"{text!r} was to be told {count} times, and was {said[text, id_]} times"
        for (text, id_), count in expected.items()
        if said[text, id_] != count
    ]


def _in_room(query: Query, said: Sequence[str]) -> list[str]:
    """Each line of a person is there, each member reads it once, and answers with one line."""
    lines = query("SELECT id, from_agent, message FROM chat_messages ORDER BY id")
    problems = [f"{text!r} is not in the room" for text in said if text not in [line[2] for line in lines]]
    read: dict[str, Counter[str]] = {agent: Counter() for agent in MEMBERS}
    for agent, text, status in query(
        "SELECT agent, message, status FROM messages WHERE channel = 'chatroom' AND trigger = 1"
    ):
        read[agent][f"You said: {text}" if status == "completed" else APOLOGY] += 1
    for agent, wanted in read.items():
        answers = Counter(text for _, by, text in lines if by == agent)
        problems += [f"{agent} said in the room {answers}, and was to say {wanted}"] if answers != wanted else []
        posts = sum(by not in MEMBERS for _, by, _ in lines)
        problems += [f"{agent} read {wanted.total()} of {posts} lines"] if wanted.total() != posts else []
    return problems


def _lines(dice: random.Random, place: Place, span_s: float) -> list[Line]:
    """What a person tells the leader, which does as it is told."""
    count = dice.randint(1, 4)
    return [_line(dice, f"{place.mark}n{number}", dice.uniform(0, span_s / count)) for number in range(count)]


def _line(dice: random.Random, mark: str, after_s: float) -> Line:
    work = dice.choice([f"{mark}q", f"!slow {dice.randint(5, 40)} {mark}q", f"!fail {dice.choice([1, 99])} {mark}q"])
    late = {"agent": "bob", "text": work, "kind": "task", "within": f"{dice.randint(10, 60)}s"}
    ring = " ".join(f"!send {MEMBERS[number % 3]}" for number in range(1, _RING + 1))
    kinds = {f"!send bob {work}": 40, f"!tool send_to_agent {json.dumps(late)}": 35, f"{ring} {mark}q": 25}
    return Line(after_s, dice.choices(list(kinds), list(kinds.values()))[0], (), is_loose=True)
