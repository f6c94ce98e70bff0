"""Posts alerts to the operator's webhook, signed by Standard Webhooks; it fetches them as a client of REST would.

An alert for the webhook is a response in a chat of its own, whose channel no adapter serves. It is kept and posted in
order, at each look of ``sweep``, until the webhook takes it with a 2xx. Like all that no client fetches, it is dead
after ``POSTROOM_RETENTION_MS``. A repetition has the same ``webhook-id``.
"""

from functools import partial

import apsw
import msgspec

from shared.channels import registry, standard_webhooks
from shared.core import logs
from shared.core.settings import Settings
from shared.db.alerts import alert_facts
from shared.db.alerts.alert_facts import WaitingPost
from shared.db.engine.group_commit import Writer
from shared.db.queue import fetched_responses
from shared.roster import alert_routes
from shared.roster.alert_routes import PLACE, WEBHOOK
from shared.runtime.http1_client import HttpClient
from shared.runtime.http_client import Client, NoAnswer, RequestNotSent

log = logs.get()

LIMIT_S = 10.0  # of one answer
_MOST = 20  # of one look


class WebhookPosts:
    """The posts of one process."""

    def __init__(self, settings: Settings, writer: Writer, client: Client | None = None) -> None:
        self._settings = settings
        self._writer = writer
        self._client: Client = client or HttpClient(answer_limit_s=LIMIT_S)

    async def post(self, conn: apsw.Connection, *, now_ms: int) -> int:
        """Post what waits, oldest first, up to the first that the webhook does not take; how many it took."""
        url, secret = self._settings.alert_url, self._settings.alert_secret
        if url is None or secret is None:
            if (missing := alert_routes.lacking(conn, self._settings)) is not None:
                log.warning("alerts.not_posted", reason=f"sweep has no {missing}")
            return 0
        waiting = alert_facts.waiting_posts(conn, WEBHOOK, PLACE, limit=_MOST)
        for count, each in enumerate(waiting):
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
            status, _, _ = await self._client.request("POST", url, body, {"Content-Type": "application/json", **signed})
        except RequestNotSent as error:
            return f"the webhook of POSTROOM_ALERT_URL can't be reached ({error})"
        except NoAnswer as error:
            return f"the webhook of POSTROOM_ALERT_URL did not answer ({error})"
        return None if 200 <= status < 300 else f"the webhook of POSTROOM_ALERT_URL answered {status}"

    async def close(self) -> None:
        """Let go of its connections."""
        await self._client.close()
