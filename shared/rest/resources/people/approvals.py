"""Approvals: the requests that wait for a yes or no, and the decided ones."""

from typing import Literal

import apsw
from pydantic import Field
from typing_extensions import TypedDict

from shared.conversation.inbound import decisions
from shared.core.errors import NotFound
from shared.core.policy import AccessPolicy
from shared.core.time import clock
from shared.db.access.approvals import Status
from shared.db.views import access
from shared.db.views.access import ApprovalView
from shared.rest.http.common import PageQuery
from shared.rest.http.endpoint import Body, RequestRefused, endpoint
from shared.rest.http.service import Service


class DecidedApproval(TypedDict):
    """The approval is decided. *sentence*: the result. *problem*: why the approved action failed, if it did."""

    ok: Literal[True]
    approval: ApprovalView
    sentence: str
    problem: str | None


class ApprovalsQuery(PageQuery):
    """*status*: only these. *before*: only rows with a lower id."""

    status: Status | None = None


class DecisionBody(Body):
    """*choice*: the number of an option, from 0. Or *approve*: true takes the first option, false the last."""

    choice: int | None = Field(default=None, ge=0, le=100)
    approve: bool | None = None


def _approval(conn: apsw.Connection, approval_id: str) -> ApprovalView:
    found = access.approval(conn, approval_id)
    if found is None:
        raise NotFound(f"no approval {approval_id!r}; GET /api/approvals lists them")
    return found


@endpoint("GET", "/api/approvals")
async def get_approvals(service: Service, *, query: ApprovalsQuery) -> list[ApprovalView]:
    """List the approvals, newest first."""
    return access.approvals(service.reader, status=query.status, before=query.before, limit=query.limit)


@endpoint("GET", "/api/approvals/{id}", {404: "there is no such approval"})
async def get_approval(service: Service, *, id: str) -> ApprovalView:
    """Read one approval, with all arguments of the requested action."""
    return _approval(service.reader, id)


@endpoint(
    "POST",
    "/api/approvals/{id}/decide",
    {404: "there is no such approval", 409: "it is decided or expired, or there is no such option"},
)
async def decide(service: Service, *, id: str, body: DecisionBody) -> DecidedApproval:
    """Decide an approval as the operator. The action is done before the answer comes; the card shows the decision."""
    if (body.choice is None) == (body.approve is None):
        raise RequestRefused(400, "send either choice (the number of an option, from 0) or approve (true or false)")
    policy = AccessPolicy.of(service.settings)

    def work(conn: apsw.Connection) -> DecidedApproval:
        asked = _approval(conn, id)
        last = len(asked["options"]) - 1
        choice = body.choice if body.choice is not None else 0 if body.approve else last
        done = decisions.decide(conn, id, choice, decisions.OPERATOR, policy=policy, now_ms=clock.now_ms())
        return {"ok": True, "approval": _approval(conn, id), "sentence": done.sentence, "problem": done.problem}

    return await service.change(work, "dispatch", "deliver")


ENDPOINTS = (get_approvals, get_approval, decide)
