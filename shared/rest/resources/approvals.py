"""Approvals: what waits for somebody's yes or no, and what became of it."""

from typing import Literal

import apsw
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from shared.core import clock
from shared.core.errors import NotFound
from shared.core.policy import AccessPolicy
from shared.db.access.approvals import Status
from shared.db.views import access
from shared.db.views.access import ApprovalView
from shared.inbound import decisions
from shared.rest.http.common import PageQuery
from shared.rest.http.endpoint import Body, RequestRefused, endpoint
from shared.rest.http.service import Service


class DecidedApproval(TypedDict):
    """It is decided; *sentence* says what came of it, *problem* why what was approved could not be done."""

    ok: Literal[True]
    approval: ApprovalView
    sentence: str
    problem: str | None


class ApprovalsQuery(PageQuery):
    """In which state; of those before a row, the newest."""

    status: Status | None = None


class DecisionBody(Body):
    """Either which of the options, from 0 on, or simply whether: true takes the first of them, false the last."""

    model_config = ConfigDict(extra="forbid")

    choice: int | None = Field(default=None, ge=0, le=100)
    approve: bool | None = None


def _approval(conn: apsw.Connection, approval_id: str) -> ApprovalView:
    found = access.approval(conn, approval_id)
    if found is None:
        raise NotFound(f"no approval {approval_id!r}; GET /api/approvals lists them")
    return found


@endpoint("GET", "/api/approvals")
async def get_approvals(service: Service, *, query: ApprovalsQuery) -> list[ApprovalView]:
    """What somebody is, or was, asked to decide; newest first."""
    return access.approvals(service.reader, status=query.status, before=query.before, limit=query.limit)


@endpoint("GET", "/api/approvals/{id}", {404: "there is no such approval"})
async def get_approval(service: Service, *, id: str) -> ApprovalView:
    """One approval, with every argument of what is asked for."""
    return _approval(service.reader, id)


@endpoint(
    "POST",
    "/api/approvals/{id}/decide",
    {404: "there is no such approval", 409: "it is decided or too old, or there is no such choice"},
)
async def decide(service: Service, *, id: str, body: DecisionBody) -> DecidedApproval:
    """Decide it, as the operator; what follows is done by the time of the answer, and the card says so."""
    if (body.choice is None) == (body.approve is None):
        raise RequestRefused(400, "send either choice, the number of an option from 0 on, or approve: true or false")
    policy = AccessPolicy.of(service.settings)

    def work(conn: apsw.Connection) -> DecidedApproval:
        asked = _approval(conn, id)
        last = len(asked["options"]) - 1
        choice = body.choice if body.choice is not None else 0 if body.approve else last
        done = decisions.decide(conn, id, choice, decisions.OPERATOR, policy=policy, now_ms=clock.now_ms())
        return {"ok": True, "approval": _approval(conn, id), "sentence": done.sentence, "problem": done.problem}

    return await service.change(work, "dispatch", "deliver")


ENDPOINTS = (get_approvals, get_approval, decide)
