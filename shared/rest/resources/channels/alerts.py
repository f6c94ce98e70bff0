"""Alerts: what is not well, whom it was told, and the routes by which it is told."""

from typing import Literal

import apsw
from pydantic import ConfigDict, Field
from starlette.requests import Request
from typing_extensions import TypedDict

from shared.conversation.alerts import words
from shared.core import page_links
from shared.core.row_settings import camel
from shared.core.time import clock
from shared.db.alerts import alert_routes, alerts, tellings
from shared.db.alerts.alert_routes import SETTINGS, AlertKind, AlertRoute
from shared.db.alerts.alerts import Alert
from shared.db.alerts.tellings import AlertTelling
from shared.db.engine.named_rows import shows_settings_of, view_of
from shared.db.roster import chats
from shared.db.views import why
from shared.db.views.why_sentences import Reason, Why
from shared.rest.http.common import OK, LimitQuery, Ok
from shared.rest.http.endpoint import Body, endpoint
from shared.rest.http.service import Service
from shared.roster import alert_routes as routes
from shared.roster.changes import takes_settings_of, without_defaults

_FIELDS = {camel(name): name for name in SETTINGS}


class AlertTellingView(Reason):
    """When a route was notified, in ms UTC.

    *saidBy*: the route that said it, another one while its own channel is silent. *toldBy*,
    *overToldBy*: the responses. *state*, *reason*, *until*: how the later one of them stands, as in ``GET /api/why``;
    ``gone`` where it is so old that its row is deleted.
    """

    route: str
    saidBy: str
    toldAt: int
    toldBy: int
    overToldAt: int | None
    overToldBy: int | None


class AlertView(TypedDict):
    """A problem of now or before; instants in ms UTC. *overAt*: null while it stands.

    *what*, *why* and *remedy* are sentences. *key* stays the same while the cause does. *link*: its place on the
    operator's page; empty where the page's address is not set. *place*: the same without that address.
    """

    id: int
    key: str
    kind: AlertKind
    what: str
    why: str
    remedy: str
    link: str
    place: str
    channel: str | None
    since: int
    noticedAt: int
    overAt: int | None
    told: list[AlertTellingView]


@shows_settings_of(AlertRoute, camel)
class AlertRouteView(TypedDict):
    """A route of alerts. *chatId*: where they go."""

    name: str
    chatId: int
    channel: str
    chatName: str | None


class SavedAlertRoute(TypedDict):
    """The route after the change."""

    ok: Literal[True]
    route: AlertRouteView


@takes_settings_of(AlertRoute, camel)
class AlertRouteBody(Body):
    """Fields that are left out stay as they are. *chatId*: where the alerts go; a new route needs one.

    *webhook*: in place of a chat, to the address of ``POSTROOM_ALERT_URL``.
    """

    model_config = ConfigDict(json_schema_extra=without_defaults)

    chatId: int | None = Field(default=None, ge=1)
    webhook: bool = False


def _route(conn: apsw.Connection, route: AlertRoute) -> AlertRouteView:
    chat = chats.get(conn, route.chat_id)
    own = {"channel": chat.channel if chat else "", "chatName": chat.name if chat else None}
    return view_of(AlertRouteView, route, **own)


def _alert(conn: apsw.Connection, alert: Alert, told: list[AlertTelling], public_url: str, now_ms: int) -> AlertView:
    trouble, own = alert.trouble, [each for each in told if each.alert_id == alert.id]
    return view_of(
        AlertView,
        trouble,
        id=alert.id,
        link=page_links.link(public_url, trouble.page, trouble.page_id),
        place=page_links.place(trouble.page, trouble.page_id),
        noticedAt=alert.noticed_at,
        overAt=alert.over_at,
        told=[view_of(AlertTellingView, each, **_delivery(conn, each, now_ms).as_fields()) for each in own],
    )


def _delivery(conn: apsw.Connection, telling: AlertTelling, now_ms: int) -> Why:
    return words.delivery(why.response(conn, telling.over_told_by or telling.told_by, now_ms=now_ms), now_ms=now_ms)


@endpoint("GET", "/api/alerts", {503: "too many long reads run at once: try again later"})
async def get_alerts(service: Service, *, query: LimitQuery, request: Request) -> list[AlertView]:
    """List the problems of now and before, newest first. Without a route nothing is checked."""
    url, now_ms = service.settings.public_url, service.now_ms()

    def work(conn: apsw.Connection) -> list[AlertView]:
        found = alerts.newest(conn, limit=query.limit)
        told = tellings.of_alerts(conn, [each.id for each in found])
        return [_alert(conn, each, told, url, now_ms) for each in found]

    return await service.background_reads.read(work, request.receive)


@endpoint("GET", "/api/alerts/routes")
async def get_alert_routes(service: Service) -> list[AlertRouteView]:
    """List the routes of alerts."""
    return [_route(service.reader, each) for each in alert_routes.every(service.reader)]


@endpoint("PUT", "/api/alerts/routes/{name}", {400: "the name or a setting is wrong", 404: "there is no such chat"})
async def put_alert_route(service: Service, *, name: str, body: AlertRouteBody) -> SavedAlertRoute:
    """Send alerts to a chat or a webhook, or change how. A new route is notified of every problem of that moment."""
    given = body.model_dump(exclude_unset=True, exclude={"chatId", "webhook"})
    changes = {_FIELDS[field]: value for field, value in given.items()}

    def work(conn: apsw.Connection) -> SavedAlertRoute:
        now_ms = clock.now_ms()
        to = routes.webhook(conn, service.settings, now_ms=now_ms) if body.webhook else body.chatId
        saved = routes.save(conn, name, to, changes, now_ms=now_ms)
        return {"ok": True, "route": _route(conn, saved)}

    return await service.change(work)


@endpoint("DELETE", "/api/alerts/routes/{name}", {404: "there is no such route"})
async def delete_alert_route(service: Service, *, name: str) -> Ok:
    """Send no more alerts there."""
    await service.change(lambda conn: routes.delete(conn, name))
    return OK


ENDPOINTS = (get_alerts, get_alert_routes, put_alert_route, delete_alert_route)
