"""What a host of a pair says of itself: which part it plays, how far its copy is behind, and who holds the lease."""

import contextlib
import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uvicorn.config import Config
from uvicorn.server import Server

from infra.litestream.standby.decisions import FollowerProgress

_NO_PROGRESS = FollowerProgress()
LEVEL_WITHIN_S = 30.0  # a standby whose copy had everything so long ago is well; longer in a slow bucket


@dataclass(frozen=True, slots=True)
class StandbyFacts:
    """A standby at one instant.

    Args:
        part: ``starting``, ``standby`` or ``active``.
        now_s, part_since_s: by the machine's clock since it was started.
        following: the URL of the prefix that the warm copy is of, if there is one.
        is_usable: the warm copy is of the newest prefix, and its follower runs.
        problem: why the bucket does not answer, if it does not.
        stuck: why no copy comes on, if none does: a hole in the prefix, say.
        holder: the host with the lease, in words.
    """

    part: str
    now_s: float
    part_since_s: float
    following: str | None = None
    is_usable: bool = True
    following_since_s: float | None = None
    progress: FollowerProgress = _NO_PROGRESS
    holder: str | None = None
    lease_seen_s: float | None = None
    problem: str | None = None
    stuck: str | None = None


def trouble(facts: StandbyFacts) -> str | None:
    """Why the host could not do its part now, in a sentence; None when all is well."""
    if facts.part == "active":
        return None
    if facts.problem is not None:
        return f"the bucket does not answer: {facts.problem}"
    if facts.stuck is not None and facts.following is not None:
        return f"the warm copy does not advance, and another one can't be restored: {facts.stuck}"
    if facts.following is None:
        return "there is no warm copy yet: a takeover now would restore first"
    if not facts.is_usable:
        return "the warm copy is of an earlier prefix, or its follower ended: a takeover now would restore first"
    level_s = facts.progress.level_s
    if level_s is None or facts.now_s - level_s > LEVEL_WITHIN_S + facts.progress.patience_s:
        behind = facts.progress.commits_behind
        return f"the warm copy is behind by {behind} commits; if that continues, check the network to the bucket"
    return None


def report(facts: StandbyFacts) -> dict[str, Any]:
    """The facts as JSON for people and monitors."""
    progress, now_s = facts.progress, facts.now_s
    copy = {
        "replica": facts.following,
        "since_s": _age(facts.following_since_s, now_s),
        "txid": progress.txid,
        "commits_behind": progress.commits_behind,
        "level_s_ago": _age(progress.level_s, now_s),
    }
    return {
        "part": facts.part,
        "since_s": _age(facts.part_since_s, now_s),
        "trouble": trouble(facts),
        "copy": copy if facts.following else None,
        "lease": {"holder": facts.holder, "unchanged_s": _age(facts.lease_seen_s, now_s)},
    }


def _age(since_s: float | None, now_s: float) -> float | None:
    return None if since_s is None else round(max(0.0, now_s - since_s), 1)


class StatusServer(Server):
    """``GET /healthz``: 200 when the host could do its part now, else 503; the body says which, and why."""

    def __init__(self, facts: Callable[[], StandbyFacts]) -> None:
        async def healthz(_: Request) -> Response:
            said = report(facts())
            return Response(
                json.dumps(said, indent=2) + "\n",
                200 if said["trouble"] is None else 503,
                media_type="application/json",
            )

        async def nothing(_: Request, __: Exception) -> Response:
            return JSONResponse({"error": "there is only /healthz"}, 404)

        app = Starlette(routes=[Route("/healthz", healthz)], exception_handlers={404: nothing})
        super().__init__(Config(app, lifespan="off", access_log=False, log_config=None, log_level="warning", ws="none"))

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the program."""
        yield


def listen(host: str, port: int) -> socket.socket:
    """A listening socket for the status.

    Raises:
        OSError
    """
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
