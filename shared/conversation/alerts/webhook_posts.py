"""Posts alerts to the operator's webhook, signed by Standard Webhooks; it fetches them as a client of REST would.

An alert for the webhook is a response in a chat of its own, whose channel no adapter serves. It is kept and posted in
order, at each look of ``sweep``, until the webhook takes it with a 2xx. Like all that no client fetches, it is dead
after ``POSTROOM_RETENTION_MS``. A repetition has the same ``webhook-id``.
"""

import asyncio
from collections.abc import Callable
from functools import partial

import apsw
import msgspec

from shared.channels import registry, standard_webhooks
from shared.core import logs
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.alerts import alert_facts
from shared.db.alerts.alert_facts import WaitingPost
from shared.db.alerts.alert_routes import PLACE, WEBHOOK
from shared.db.engine.group_commit import Writer
from shared.db.queue import fetched_responses
from shared.roster import alert_routes
from shared.runtime.http1_client import HttpClient
from shared.runtime.http_client import Client, NoAnswer, RequestNotSent

log = logs.get()

LIMIT_S = 5.0  # of one answer; and after so long no other is posted
_MOST = 20  # of one look


class WebhookPosts:
    """The posts of one process."""

    def __init__(
        self,
        settings: Settings,
        writer: Writer,
        client: Client | None = None,
        *,
        limit_s: float = LIMIT_S,
        clock_s: Callable[[], float] = clock.monotonic_s,
    ) -> None:
        self._settings = settings
        self._writer = writer
        self._client: Client = client or HttpClient(answer_limit_s=limit_s)
        self._limit_s = limit_s
        self._clock_s = clock_s

    async def post(self, conn: apsw.Connection, *, now_ms: int) -> int:
        """Post what waits, oldest first, up to the first that it does not take, for some seconds; how many it took."""
        url, secret = self._settings.alert_url, self._settings.alert_secret
        if url is None or secret is None:
            if (missing := alert_routes.lacking(conn, self._settings)) is not None:
                log.warning("alerts.not_posted", reason=f"sweep has no {missing}")
            return 0
        waiting = alert_facts.waiting_posts(conn, WEBHOOK, PLACE, limit=_MOST)
        deadline = self._clock_s() + self._limit_s
        for count, each in enumerate(waiting):
            if count and self._clock_s() >= deadline:
                return count
            problem = await self._post(each, url.get_secret_value(), secret.get_secret_value(), now_ms)
            if problem is not None:
                log.warning("alerts.not_posted", response_id=each.id, reason=problem, waiting=len(waiting) - count)
                return count
            done = partial(fetched_responses.ack, response_id=each.id, adapters=registry.PLATFORMS, now_ms=now_ms)
            await self._writer.run(done)
        return len(waiting)

    async def _post(self, alert: WaitingPost, url: str, secret: str, now_ms: int) -> str | None:
        """Why the webhook did not take it; None: it did."""
        body = msgspec.json.encode({"id": alert.message_id, "at": alert.created_at, "text": alert.text})
        signed = standard_webhooks.sign(secret, alert.message_id, body, now_ms=now_ms)
        try:
            async with asyncio.timeout(self._limit_s):
                headers = {"Content-Type": "application/json", **signed}
                status, _, _ = await self._client.request("POST", url, body, headers)
        except RequestNotSent as error:
            return f"the webhook of POSTROOM_ALERT_URL can't be reached ({error})"
        except (NoAnswer, TimeoutError) as error:
            return f"the webhook of POSTROOM_ALERT_URL did not answer ({str(error) or type(error).__name__})"
        return None if 200 <= status < 300 else f"the webhook of POSTROOM_ALERT_URL answered {status}"

    async def close(self) -> None:
        """Let go of its connections."""
        await self._client.close()
