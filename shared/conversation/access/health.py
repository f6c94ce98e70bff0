"""One idea of health: what stops the work, and what needs a person while the work goes on.

``GET /api/health`` and ``emulator doctor`` ask here. The emulator asks the API for its status, its readiness and the
chat page. So all of them say the same in the same words, and so does the report on a mart.
"""

import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

import apsw

from shared.channels import registry
from shared.conversation.access import channel_watch
from shared.core import durability as levels
from shared.core.policy import AccessPolicy
from shared.db.access import user_roles
from shared.db.engine import file_system
from shared.db.platforms import channel_watches
from shared.db.roster import agent_pauses, chats
from shared.db.spending.settled_usage import SettledUsage
from shared.db.views import counts, spending, troubles

_MB = 1024 * 1024
_FULL_MB, _LOW_MB = 16, 100


class Health(NamedTuple):
    """Sentences, each with what to do. *stops*: the work stops. *needs*: it goes on, and somebody has to act."""

    stops: list[str]
    needs: list[str]

    def __add__(self, other: "Health") -> "Health":  # type: ignore[override]
        """Both."""
        return Health(self.stops + other.stops, self.needs + other.needs)


class Need(NamedTuple):
    """What needs a person, what to do then, and the command that does it."""

    what: str
    then: str
    command: str

    def __str__(self) -> str:
        """All of it in one sentence."""
        return f"{self.what}. {self.then}: {self.command}"


def paused(agent: str, code: str, reason: str | None) -> Need:
    """Of an agent that Postroom paused; without a reason where that may not be told. Pure."""
    why = f": {reason}" if reason else ""
    what = f"agent {agent} is paused ({code}), and its messages wait{why}"
    return Need(what, "When it is fixed", f"emulator agents resume {shlex.quote(agent)}")


def waits(count: int) -> str:
    """How many messages wait, by ``troubles.waiting_for``. Pure."""
    many = f"more than {troubles.MOST_COUNTED:,}" if count > troubles.MOST_COUNTED else f"{count:,}"
    return "1 message waits" if count == 1 else f"{many} messages wait"


def held(agent: str, count: int) -> Need:
    """Of an agent that an operator paused, with messages that wait for it. Pure."""
    resume = f"emulator agents resume {shlex.quote(agent)}"
    return Need(f"agent {agent} is paused by hand, and {waits(count)} for it", "To resume it", resume)


def used_up(agent: str | None, period: str, unit: str) -> Need:
    """Of a budget that is used up; *agent*: None: all agents together. Pure."""
    what = f"the budget in {unit} of {agent or 'all agents'} for this {period} is used up, so messages wait"
    whose = "" if agent is None else f" --agent {shlex.quote(agent)}"
    limit = "--dollars AMOUNT" if unit == "money" else "--tokens NUMBER"
    return Need(f"{what} until it is over", "To give more", f"emulator budgets set {period}{whose} {limit}")


def of(
    conn: apsw.Connection,
    path: Path,
    policy: AccessPolicy,
    *,
    timezone: str,
    now_ms: int,
    settled: SettledUsage | None = None,
) -> Health:
    """What the rows of the database at *path*, and its disk, say."""
    needs = needs_of_rows(conn, path, policy, timezone=timezone, now_ms=now_ms, settled=settled)
    return of_disk(path, shutil.disk_usage(path.parent).free) + Health([], needs)


def needs_of_rows(
    conn: apsw.Connection,
    path: Path,
    policy: AccessPolicy,
    *,
    timezone: str,
    now_ms: int,
    settled: SettledUsage | None = None,
) -> list[str]:
    """What needs a person, by the rows of the database at *path* and by the kind of its file system."""
    budgets = _budgets(conn, timezone, now_ms=now_ms, settled=settled)
    needs = [*channel_watch.troubles(conn), *_pauses(conn, now_ms), *budgets, *of_dead(conn)]
    if policy.new_chats == "ask" and not user_roles.owners(conn) and _has_platform(conn):
        needs.append(
            "nobody is an owner, so nobody is asked about a new chat, and its messages are dropped. Make one: "
            "emulator pair (or choose another POSTROOM_NEW_CHATS)"
        )
    if (doubt := file_system.doubt(path)) is not None:
        needs.append(doubt)
    return needs


def of_replica(problem: str, durability: str) -> Health:
    """What follows where commits don't reach the replica because of *problem*. Pure."""
    sentence = [levels.behind(problem, durability)]
    return Health(sentence, []) if levels.needs_replica(durability) else Health([], sentence)


def _has_platform(conn: apsw.Connection) -> bool:
    """Whether a platform has a bot of ours, so that strangers can write: it was asked, or somebody wrote."""
    return bool(channel_watches.every(conn)) or any(map(registry.is_adapted, chats.channels(conn)))


def of_disk(path: Path, free: int) -> Health:
    """Whether the disk of the database, or of its folder, has room; *free*: bytes. Pure."""
    says = f"{free // _MB} MB are free on the disk of {path}"
    if free < _FULL_MB * _MB:
        return Health([f"{says}: nothing more can be stored, so messages fail. Delete other files there"], [])
    if free < _LOW_MB * _MB:
        return Health([], [f"{says}: soon nothing more can be stored. Delete other files there"])
    return Health([], [])


def _pauses(conn: apsw.Connection, now_ms: int) -> list[str]:
    """A sentence for each agent that Postroom paused, and for each that an operator paused while messages wait.

    A budget that is used up has its own.
    """
    found = [each for each in agent_pauses.paused(conn).values() if each.code != "budget"]
    needs = [str(paused(each.agent, each.code, each.reason)) for each in found if each.paused_by == "postroom"]
    return [*needs, *(str(held(agent, count)) for agent, count in by_hand(conn, now_ms).items() if count)]


def paused_by_hand(conn: apsw.Connection, now_ms: int) -> list[str]:
    """A sentence for each agent that an operator paused, and for which nothing waits: nothing is wrong."""
    found, counts = agent_pauses.paused(conn), by_hand(conn, now_ms)
    return [str(paused(each.agent, each.code, each.reason)) for each in found.values() if counts.get(each.agent) == 0]


def by_hand(conn: apsw.Connection, now_ms: int) -> dict[str, int]:
    """The agents that an operator paused, and how many messages wait for each, as ``troubles.waiting_for`` counts."""
    found = agent_pauses.paused(conn).values()
    return {
        each.agent: troubles.waiting_for(conn, each.agent, now_ms) for each in found if each.paused_by == "operator"
    }


def _budgets(conn: apsw.Connection, timezone: str, *, now_ms: int, settled: SettledUsage | None) -> list[str]:
    """A sentence for each budget that is used up."""
    return [
        str(used_up(each["agent"], each["period"], each["unit"]))
        for each in spending.all_budgets(conn, timezone, now_ms=now_ms, settled=settled)
        if each["spent"] >= each["amount"] + each["extra"]
    ]


def of_dead(conn: apsw.Connection) -> list[str]:
    """A sentence for the dead messages, and one for the answers that could not be sent."""
    messages, responses = counts.dead(conn)
    found = []
    if messages:
        found.append(f"{_count(messages, 'message is', 'messages are')} dead: emulator messages list")
    if responses:
        found.append(f"{_count(responses, 'response', 'responses')} could not be sent: emulator responses list")
    return found


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
