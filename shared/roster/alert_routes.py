"""Routes of alerts as operators declare them. REST and the command line do it here."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import apsw

from shared.channels import registry
from shared.core.errors import ConfigInvalid, NotFound
from shared.core.settings import Settings
from shared.db.alerts import alert_routes
from shared.db.alerts.alert_routes import PLACE, WEBHOOK, AlertRoute
from shared.db.roster import chats

_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")


def save(
    conn: apsw.Connection, name: str, chat_id: int | None, changes: Mapping[str, Any], *, now_ms: int
) -> AlertRoute:
    """Create or change the route; as it is now.

    Args:
        chat_id: where it leads; None: where it led before.
        changes: settings of the route by name, checked by their types; what is missing stays.

    Raises:
        ConfigInvalid: the name is wrong, or the route would lead nowhere.
        NotFound: there is no such chat.
    """
    if not _NAME.fullmatch(name):
        raise ConfigInvalid(f"a route of alerts can't be called {name[:64]!r}: a to z, 0 to 9 and -, such as 'ops'")
    known = alert_routes.get(conn, name)
    to = known.chat_id if chat_id is None and known is not None else chat_id
    if to is None:
        raise ConfigInvalid(f"say where the alerts of route {name!r} go: name a chat; GET /api/chats lists them")
    _check(conn, to)
    route = replace(known or AlertRoute(name, to, now_ms), chat_id=to, updated_at=now_ms, **changes)
    alert_routes.put(conn, route)
    return route


def webhook(conn: apsw.Connection, settings: Settings, *, now_ms: int) -> int:
    """The chat that stands for the operator's webhook.

    Raises:
        ConfigInvalid: its address or its secret is not set.
    """
    if settings.alert_url is None or settings.alert_secret is None:
        raise ConfigInvalid(
            "there is no webhook for alerts: give api and sweep the settings POSTROOM_ALERT_URL and "
            "POSTROOM_ALERT_SECRET (`openssl rand -base64 32`), and restart them"
        )
    return chats.ensure(conn, WEBHOOK, PLACE, is_group=False, name="the webhook of alerts", now_ms=now_ms).id


def lacking(conn: apsw.Connection, settings: Settings) -> str | None:
    """The setting without which nothing can be posted to the webhook, where a route leads there; else None."""
    needed = {"POSTROOM_ALERT_URL": settings.alert_url, "POSTROOM_ALERT_SECRET": settings.alert_secret}
    missing = [name for name, value in needed.items() if value is None]
    chat = chats.find(conn, WEBHOOK, PLACE) if missing else None
    leads_there = chat is not None and any(route.chat_id == chat.id for route in alert_routes.every(conn))
    return missing[0] if leads_there else None


def _check(conn: apsw.Connection, chat_id: int) -> None:
    chat = chats.get(conn, chat_id)
    if chat is None:
        raise NotFound(f"there is no chat {chat_id} for alerts; GET /api/chats lists them")
    if chat.channel != WEBHOOK and not registry.is_adapted(chat.channel):
        raise ConfigInvalid(f"nothing is sent to chat {chat_id}, because {chat.channel} has no adapter: name another")


def delete(conn: apsw.Connection, name: str) -> None:
    """Delete the route. What it was not told yet, it is told no more.

    Raises:
        NotFound: there is no such route; the message names the others.
    """
    if not alert_routes.delete(conn, name):
        others = ", ".join(each.name for each in alert_routes.every(conn)) or "none"
        raise NotFound(f"there is no route of alerts {name[:64]!r}; there are: {others}")
