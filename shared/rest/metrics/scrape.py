"""``GET /metrics``: counts from indexes of open rows and from kept sums, so finished rows cost nothing."""

import shutil
from pathlib import Path
from typing import NamedTuple

import apsw
from starlette.requests import Request
from starlette.responses import Response

from shared.channels import registry
from shared.core.settings import Settings
from shared.db.engine import meta
from shared.db.engine.connection import savepoint, scalar
from shared.db.platforms import channel_outages, channel_pauses, channel_watches
from shared.db.roster import accounts, agent_pauses, agents
from shared.db.spending.settled_usage import SettledUsage
from shared.db.views import spending, troubles
from shared.db.views.monitoring import depths, event_totals
from shared.rest.http.endpoint import endpoint
from shared.rest.http.service import Service
from shared.rest.metrics import exposition
from shared.rest.metrics.families import MetricFacts, Places, ReplicaFacts, families
from shared.rest.resources.replication.replica import get_replica


class MetricsText(Response):
    """The answer: text for Prometheus, in the format that it asks for."""

    media_type = "text/plain"


@endpoint("GET", "/metrics", {503: "too many long reads run at once: try again later"})
async def get_metrics(service: Service, *, request: Request) -> MetricsText:
    """Read counts and ages as Prometheus and OpenMetrics have them."""
    known = _Known(
        service.now_ms(),
        {name: service.kicker.is_heard(name) for name in ("dispatch", "deliver")},
        await _replica(service),
    )
    is_open_metrics = "application/openmetrics-text" in request.headers.get("accept", "")

    def write(conn: apsw.Connection) -> str:
        with savepoint(conn):  # of one instant
            facts = _read(conn, service.settings, service.settled_usage, known)
        return exposition.text(families(facts), is_open_metrics=is_open_metrics)

    text = await service.background_reads.read(write, request.receive)
    kind = exposition.OPEN_METRICS if is_open_metrics else exposition.PLAIN
    return MetricsText(text, headers={"Content-Type": kind})


class _Known(NamedTuple):
    """What no row tells."""

    now_ms: int
    running: dict[str, bool]
    replica: ReplicaFacts


def _read(conn: apsw.Connection, settings: Settings, settled: SettledUsage, known: _Known) -> MetricFacts:
    """Everything that the metrics are made from."""
    now_ms = known.now_ms
    channels = accounts.served(conn, registry.PLATFORMS)
    swept = meta.get(conn, "heartbeat_at")
    return MetricFacts(
        now_ms=now_ms,
        agents=[each.id for each in agents.every(conn)],
        paused_agents=set(agent_pauses.paused(conn)),
        channels=channels,
        deaf={each.channel for each in channel_watches.deaf(conn)},
        paused=set(channel_pauses.every(conn)),
        out=set(channel_outages.every(conn)),
        messages=depths.messages(conn, now_ms=now_ms),
        responses=depths.responses(conn, served=set(channels), now_ms=now_ms),
        tasks=depths.tasks(conn, now_ms=now_ms),
        approvals=troubles.pending_approvals(conn),
        accepted=scalar(conn, "SELECT ifnull(max(id), 0) FROM messages"),
        totals=event_totals.read(conn),
        budgets=spending.all_budgets(conn, settings.timezone, now_ms=now_ms, settled=settled),
        running=known.running,
        last_sweep=None if swept is None else int(swept),
        places=_places(settings.db),
        replica=known.replica,
    )


def _places(database: Path) -> Places:
    disk = shutil.disk_usage(database.parent)
    return Places(disk.free, disk.used, _size(database), _size(database.with_name(f"{database.name}-wal")))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


async def _replica(service: Service) -> ReplicaFacts:
    found = await get_replica.run(service)
    proven = found["provenRestore"]
    answers = None if service.settings.litestream_socket is None else found["position"] is not None
    return ReplicaFacts(answers, found["behindSeconds"], None if proven is None else proven["at"])


ENDPOINTS = (get_metrics,)
