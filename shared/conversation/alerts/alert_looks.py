"""Alerts: looks what is not well, keeps it, and tells each route once when it begins and once when it is over.

::

    look ──> standing ──note──> alerts ──plan──> sayings ──notices.write──> responses of deliver, or of the webhook
"""

from functools import partial

import apsw

from shared.conversation.alerts import decide, standing, words
from shared.conversation.alerts.standing import Findings
from shared.conversation.alerts.webhook_posts import WebhookPosts
from shared.core import logs
from shared.core.settings import Settings
from shared.db.alerts import alert_routes, alerts, tellings
from shared.db.alerts.alert_routes import WEBHOOK, AlertRoute
from shared.db.engine.connection import open_connection, savepoint
from shared.db.engine.group_commit import Writer
from shared.db.roster import chats
from shared.db.roster.chats import Chat
from shared.db.spending.settled_usage import SettledUsage
from shared.queue import notices

log = logs.get()

_PRUNED = 250  # rows in one look


class AlertLooks:
    """The looks of one process; it has a connection to read with, made at the first look."""

    def __init__(self, settings: Settings, writer: Writer) -> None:
        self._settings = settings
        self._writer = writer
        self._posts = WebhookPosts(settings, writer)
        self._settled = SettledUsage()
        self._reader: apsw.Connection | None = None

    async def look(self, *, now_ms: int) -> int:
        """Look, and say what there is to say; the number of messages. Without a route it does nothing. Never raises."""
        try:
            found = self._look(now_ms)
            if found is None:
                if self._reader is not None and alerts.standing(self._reader):
                    await self._writer.run(partial(alerts.end_all, now_ms=now_ms))
                return 0
            return await self._writer.run(lambda conn: note(conn, found, self._settings, now_ms=now_ms))
        except Exception:  # the batch boundary: sweep's other work goes on
            log.exception("alerts.failed")
            return 0

    async def post(self, *, now_ms: int) -> None:
        """Post to the webhook what waits for it. Never raises."""
        try:
            if self._reader is not None:
                await self._posts.post(self._reader, now_ms=now_ms)
        except Exception:  # as above
            log.exception("alerts.failed")

    def _look(self, now_ms: int) -> Findings | None:
        if self._reader is None:
            self._reader = open_connection(self._settings.db, readonly=True)
        found = None
        with savepoint(self._reader):  # of one instant
            if alert_routes.every(self._reader):
                found = standing.look(self._reader, self._settings, now_ms=now_ms, settled=self._settled)
        return found

    async def close(self) -> None:
        """Let go of the connections."""
        await self._posts.close()
        if self._reader is not None:
            self._reader.close()


def note(conn: apsw.Connection, found: Findings, settings: Settings, *, now_ms: int) -> int:
    """Keep what the look found, and write what each route is told; the number of messages."""
    alerts.note(conn, found.troubles, found.unknown, now_ms=now_ms)
    if settings.history_retention_ms:
        alerts.prune(conn, older_than_ms=now_ms - settings.history_retention_ms, limit=_PRUNED)
    routes = alert_routes.every(conn)
    places = {route.name: chats.get(conn, route.chat_id) for route in routes}
    known = [*alerts.standing(conn), *alerts.lately_over(conn, now_ms=now_ms)]
    sayings = decide.plan(
        routes,
        known,
        tellings.of_alerts(conn, [each.id for each in known]),
        silent={name for name, chat in places.items() if not _can_send(chat, found)},
        said={
            each.name: tellings.said_since(conn, each.name, after_ms=now_ms - decide.STORM_MS, now_ms=now_ms)
            for each in routes
        },
        timezone=settings.timezone,
        now_ms=now_ms,
    )
    by_name = {route.name: route for route in routes}
    for saying in sayings:
        route, chat = by_name[saying.route], places[saying.route]
        assert chat is not None  # noqa: S101 - one that is gone is silent
        _say(conn, saying, route, chat, settings, now_ms=now_ms)
    return len(sayings)


def _can_send(chat: Chat | None, found: Findings) -> bool:
    return chat is not None and chat.status == "active" and chat.channel not in found.silent


def _say(
    conn: apsw.Connection,
    saying: decide.Saying,
    route: AlertRoute,
    chat: Chat,
    settings: Settings,
    *,
    now_ms: int,
) -> None:
    text = words.text(
        saying,
        public_url=settings.public_url,
        timezone=route.timezone or settings.timezone,
        is_markdown=chat.channel != WEBHOOK,
    )
    response = notices.write(conn, chat, text, now_ms=now_ms)
    for alert, phase, duties in saying.news:
        for duty in duties:
            if phase != "ended":
                tellings.begin(conn, alert.id, duty, said_by=route.name, response=response, now_ms=now_ms)
            if phase in ("ended", "passed"):
                tellings.end(conn, alert.id, duty, response=response, now_ms=now_ms)
    if saying.form == "digest":
        alert_routes.note_digest(conn, route.name, now_ms=now_ms)
