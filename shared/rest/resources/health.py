"""What is not well, as far as this process can tell from rows, sockets and Litestream."""

from pathlib import Path

from typing_extensions import TypedDict

from shared.conversation.access import health
from shared.conversation.access.health import Health
from shared.conversation.alerts import faults_by_hand
from shared.core.errors import NotReplicated
from shared.core.policy import AccessPolicy
from shared.core.time import clock
from shared.db.engine import meta
from shared.db.engine.named_rows import view_of
from shared.db.replica.last_comparison import LastComparison
from shared.db.replica.sync import sync
from shared.rest.http.endpoint import endpoint
from shared.rest.http.service import Service
from shared.rest.resources.replication.replica import overdue
from shared.runtime import kick

_KICKED = {"dispatch": "no agent's turn begins", "deliver": "no response is sent"}
_OTHERS = {"ingest": "no message comes in", "sweep": "nothing is rescued", "recurrence": "schedules wait"}
_SWEEP_OVERDUE_MS = 5 * 60_000  # it is due every minute, and takes at most one
_SYNC_LIMIT_S = 2.0


class FunctionHealth(TypedDict):
    """*running*: its process listens, and does not hang."""

    running: bool


class ReplicaHealth(TypedDict):
    """*problem*: why commits do not reach the replica; null if they do."""

    problem: str | None


class ComparisonView(TypedDict):
    """The newest comparison of a restored replica with the database; *differences* are tables, *damage* its reason."""

    at: int
    equal: bool
    position: str
    tables: int
    rows: int
    differences: list[str]
    damage: str | None


class HealthView(TypedDict):
    """*notReady*: a sentence for each thing that stops the work. *needsYou*: for each that needs a person meanwhile.

    *asWanted*: for each agent that an operator paused, and each fault that somebody set in an emulator. *problems*: the
    first two; *ok*: there is none. *uptime*: of ``api``, in seconds. *lastSweep*: ms UTC. *replica* is null where
    ``api`` knows no Litestream, *comparison* where none was made.
    """

    ok: bool
    problems: list[str]
    notReady: list[str]
    needsYou: list[str]
    asWanted: list[str]
    uptime: int
    functions: dict[str, FunctionHealth]
    lastSweep: int | None
    replica: ReplicaHealth | None
    comparison: ComparisonView | None


@endpoint("GET", "/api/health")
async def get_health(service: Service) -> HealthView:
    """Read the problems. It asks Litestream, so it may take two seconds while the bucket is unavailable."""
    now_ms = clock.now_ms()
    sockets = service.settings.sockets
    running = {name: service.kicker.is_heard(name) for name in _KICKED}
    last_sweep = _last_sweep(service)
    replica = await _replica(service)
    comparison = _comparison(service.settings.db)
    found = Health([_stop(service, name) for name, is_running in running.items() if not is_running], [])
    if service.past is None:  # what was wrong then is not wrong now
        silent = {name: for_ms for name, for_ms in kick.silent(sockets).items() if name not in (*_KICKED, "api")}
        found.stops.extend(_silence(name, for_ms, sockets) for name, for_ms in silent.items())
        if "sweep" not in silent:
            found.stops.extend(_sweep_problems(last_sweep, since_ms=service.started_at, now_ms=now_ms))
        found += health.of(
            service.reader,
            service.settings.db.absolute(),
            AccessPolicy.of(service.settings),
            timezone=service.settings.timezone,
            now_ms=now_ms,
            settled=service.settled_usage,
        )
    if replica is not None and replica["problem"] is not None:
        found += health.of_replica(replica["problem"], service.settings.durability)
    if comparison is not None and not comparison["equal"]:
        found.needs.append("the newest comparison found that the replica lacks something: `emulator verify` shows it")
    found.needs.extend(overdue(service, service.now_ms()))
    problems = found.stops + found.needs
    by_hand = health.paused_by_hand(service.reader, service.now_ms()) if service.past is None else []
    set_faults = faults_by_hand.sentences(sockets, now_ms=clock.machine_ms())
    return {
        "ok": not problems,
        "problems": problems,
        "notReady": found.stops,
        "needsYou": found.needs,
        "asWanted": [*by_hand, *set_faults],
        "uptime": (now_ms - service.started_at) // 1000,
        "functions": {name: {"running": is_running} for name, is_running in running.items()},
        "lastSweep": last_sweep,
        "replica": replica,
        "comparison": comparison,
    }


def _stop(service: Service, name: str) -> str:
    """What does not go on without the function; of a process that hangs, since when, and what to do."""
    sentence = f"{name} does not run: {_KICKED[name]}"
    silent_ms = kick.silent_ms(service.settings.sockets, name)
    if not silent_ms or not service.kicker.has_listener(name):
        return sentence
    return (
        f"{sentence}. Its process hangs: {kick.silence(silent_ms)}. Restart its service; in an emulator: "
        f"emulator fault kill {name}"
    )


def _silence(name: str, for_ms: int, run: Path) -> str:
    """As ``_stop``, of a function that takes no kicks: no socket tells whether its process has ended. Pure."""
    return (
        f"{name} does not run: {_OTHERS.get(name, 'its work waits')}. Its process hangs or has ended: "
        f"{kick.silence(for_ms)}. Restart its service; in an emulator: emulator fault kill {name}. If it is not to run "
        f"here any more, remove {run / name}.alive"
    )


def _last_sweep(service: Service) -> int | None:
    found = meta.get(service.reader, "heartbeat_at")
    return int(found) if found is not None else None


def _sweep_problems(last_sweep: int | None, *, since_ms: int, now_ms: int) -> list[str]:
    """Why sweeps are overdue, if they are; *since_ms*: when this process began to wait for one. Pure."""
    waited_ms = now_ms - max(last_sweep or 0, since_ms)
    if waited_ms < _SWEEP_OVERDUE_MS:
        return []
    return [
        f"no sweep for {waited_ms // 60_000} min: sweep or the ticker does not run. Nothing is rescued, and schedules "
        f"wait"
    ]


async def _replica(service: Service) -> ReplicaHealth | None:
    socket = service.settings.litestream_socket
    if socket is None:
        return None
    try:
        await sync(socket, service.settings.db.absolute(), _SYNC_LIMIT_S)
    except NotReplicated as error:
        return {"problem": str(error)}
    return {"problem": None}


def _comparison(database: Path) -> ComparisonView | None:
    found = LastComparison.read(database)
    return None if found is None else view_of(ComparisonView, found, equal=found.is_equal)


ENDPOINTS = (get_health,)
