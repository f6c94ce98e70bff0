"""Pairings: one-time codes. The first person to send ``/start CODE`` to the bot gets what the code grants."""

from typing import Literal

import apsw
from pydantic import Field
from typing_extensions import TypedDict

from shared.conversation.inbound import pairing
from shared.core.errors import NotFound, WrongState
from shared.core.time import clock
from shared.db.access import pairings
from shared.db.access.pairings import Grants
from shared.db.views import access
from shared.db.views.access import PairingView
from shared.rest.http.common import OK, Ok, PageQuery
from shared.rest.http.endpoint import Body, endpoint
from shared.rest.http.service import Service


class MadePairing(TypedDict):
    """The code, which is shown only this once, and the text to send to the bot."""

    ok: Literal[True]
    pairingId: str
    code: str
    say: str
    expiresAt: int


class NewPairingBody(Body):
    """*grants*: the role of owner or admin, membership of an agent, or the wiring of an agent to the chat."""

    grants: Grants = "owner"
    agent: str | None = Field(default=None, max_length=64, description="needed for member and chat")


@endpoint("GET", "/api/pairings")
async def get_pairings(service: Service, *, query: PageQuery) -> list[PairingView]:
    """List the pairings, newest first."""
    return access.pairings(service.reader, before=query.before, limit=query.limit, now_ms=service.now_ms())


@endpoint("POST", "/api/pairings", {400: "a code can't grant this; the error says why", 404: "there is no such agent"})
async def post_pairing(service: Service, *, body: NewPairingBody) -> MadePairing:
    """Make a code. It works once, within ``POSTROOM_PAIRING_LIFE_MS``."""
    life_ms = service.settings.pairing_life_ms
    made = await service.change(
        lambda conn: pairing.make(conn, body.grants, body.agent, life_ms=life_ms, now_ms=clock.now_ms())
    )
    return {
        "ok": True,
        "pairingId": made.pairing.pairing_id,
        "code": made.code,
        "say": made.say,
        "expiresAt": made.pairing.expires_at,
    }


@endpoint(
    "DELETE", "/api/pairings/{id}", {404: "there is no such pairing", 409: "it is used, expired or revoked already"}
)
async def delete_pairing(service: Service, *, id: str) -> Ok:
    """Revoke a pairing: its code no longer works."""

    def work(conn: apsw.Connection) -> None:
        if pairings.revoke(conn, id, now_ms=clock.now_ms()):
            return
        known = pairings.get(conn, id)
        if known is None:
            raise NotFound(f"no pairing {id!r}; GET /api/pairings lists them")
        over = "expired" if known.status == "open" else known.status
        raise WrongState(f"pairing {id} is {over} already: its code no longer works")

    await service.change(work)
    return OK


ENDPOINTS = (get_pairings, post_pairing, delete_pairing)
