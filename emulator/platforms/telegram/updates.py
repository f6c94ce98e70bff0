"""Telegram's side of a webhook: delivers queued updates in order, and retries them for a day.

The rules come from the open source of the Bot API server (``WebhookActor.cpp``):

* Messages and edits have one queue per chat, button presses one per person, all other kinds one per kind and chat.
  A queue is strictly serial: its first update holds back the rest.
* Only 200 to 299 is success. The first retry comes at once, then after 2, 4, 8 … s, capped at a random 60 to 120 s. An
  integer ``Retry-After`` of 1 to 3600 replaces that wait.
* An update whose next attempt would come after its expiry is dropped. 410 for more than 23 h removes the webhook.

An update is a row until its delivery (:mod:`.queue`). An update whose answer got lost is delivered again.
"""

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import parse_qsl

import aiohttp
import msgspec

from emulator.platforms.bus import EventBus
from emulator.platforms.config import PlatformsConfig
from emulator.platforms.record.request_log import read_body
from emulator.platforms.store import PlatformStore
from emulator.platforms.telegram.queue import NOT_BY_DEFAULT, QueuedUpdate, UpdateQueue
from shared.core import logs

GONE_MS = 23 * 3_600_000
MAX_ANSWER_BYTES = 1 << 20
CAP_S = 60
Execute = Callable[[str, Mapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """The parameters of setWebhook."""

    url: str = ""
    secret_token: str = ""
    max_connections: int = 40
    allowed_updates: tuple[str, ...] = ()

    def wants(self, kind: str) -> bool:
        """Whether updates of *kind* are queued; an empty list means the default selection."""
        return kind in self.allowed_updates if self.allowed_updates else kind not in NOT_BY_DEFAULT


class _Answer(msgspec.Struct, frozen=True):
    """The result of one attempt: a status, or None with an error."""

    status: int | None
    error: str | None
    retry_after_s: int
    body: bytes = b""
    content_type: str = ""

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status <= 299 and self.error is None


class UpdateDelivery:
    """The queues, and one worker per queue with pending updates."""

    def __init__(self, config: PlatformsConfig, store: PlatformStore, bus: EventBus, execute: Execute) -> None:
        self._config, self._store, self._execute = config, store, execute
        self._clock = config.clock
        self.queue = UpdateQueue(store, bus, config.clock)
        self._session: aiohttp.ClientSession | None = None
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._replies: set[asyncio.Task[None]] = set()
        self._connections = asyncio.Semaphore(40)
        self._gone_since_ms: int | None = None
        self._news = asyncio.Event()
        kept = store.get("telegram.webhook")
        self.webhook = _read_webhook(kept) if kept else WebhookSettings()

    def start(self) -> None:
        """Open the connection, and make every pending update due, as a restart of the real server does."""
        timeout = aiohttp.ClientTimeout(total=None, sock_read=self._config.answer_timeout_ms / 1000, sock_connect=10)
        self._session = aiohttp.ClientSession(timeout=timeout, auto_decompress=True)
        self.queue.make_all_due()

    async def stop(self) -> None:
        await self._stop_workers()
        for task in tuple(self._replies):
            task.cancel()
        await asyncio.gather(*self._replies, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def set_webhook(self, webhook: WebhookSettings, *, drop_pending: bool) -> bool:
        """Store *webhook* and start deliveries to it; False if it was set already."""
        if drop_pending:
            self.queue.drop_pending()
        same = webhook == self.webhook
        if not same:
            self.webhook = webhook
            self._store.put("telegram.webhook", json.dumps(asdict(webhook)))
            self._gone_since_ms = None
            await self._stop_workers()
            self._connections = asyncio.Semaphore(webhook.max_connections)
            self.queue.make_all_due()
        self._start_workers()
        return not same

    def push(
        self, kind: str, body: Mapping[str, Any], *, chat: str | None, person: str | None, message: str | None = None
    ) -> int | None:
        """Queue an update; its id, or None if the webhook does not ask for this kind."""
        if not self.webhook.wants(kind):
            return None
        update_id = self.queue.next_id()
        update = {"update_id": update_id, kind: body}
        self.push_whole(update_id, kind, update, chat=chat, person=person, message=message)
        return update_id

    def push_whole(
        self,
        update_id: int,
        kind: str,
        update: Mapping[str, Any],
        *,
        chat: str | None,
        person: str | None,
        message: str | None = None,
    ) -> None:
        """Queue *update* unchanged; it replaces an update with the same id."""
        now_ms = self._clock.now_ms()
        self._start_worker(
            self.queue.add(update_id, kind, update, chat=chat, person=person, message=message, now_ms=now_ms)
        )
        self._news.set()

    async def news(self) -> None:
        """Return when the next update is queued."""
        self._news.clear()
        await self._news.wait()

    def redeliver(self, update_id: int) -> bool:
        """Deliver a settled update again, as if its 2xx had been lost; False if there is none."""
        queue = self.queue.requeue(update_id)
        if queue is not None:
            self._start_worker(queue)
        return queue is not None

    # workers

    def _start_workers(self) -> None:
        for queue in self.queue.nonempty_queues():
            self._start_worker(queue)

    def _start_worker(self, queue: str) -> None:
        if self.webhook.url and self._session is not None and queue not in self._workers:
            self._workers[queue] = asyncio.create_task(self._work(queue), name=f"telegram {queue}")

    async def _stop_workers(self) -> None:
        workers = [task for task in self._workers.values() if task is not asyncio.current_task()]
        self._workers.clear()
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self, queue: str) -> None:
        """Deliver until *queue* is empty. No await stands between the last check and the removal from the table."""
        try:
            while (head := self.queue.head(queue)) is not None and self.webhook.url:
                now_ms = self._clock.now_ms()
                if now_ms > head.expires_ms:
                    self.queue.mark_expired(head)
                    continue
                wait_ms = head.due_ms - now_ms
                if wait_ms > 0:
                    await self._clock.sleep(wait_ms)
                    continue
                async with self._connections:
                    started = time.perf_counter()
                    answer = await self._post(head)
                    took_ms = (time.perf_counter() - started) * 1000
                self._log(head, answer, took_ms)
                await self._settle(head, answer, took_ms)
        finally:
            if self._workers.get(queue) is asyncio.current_task():
                del self._workers[queue]

    async def _post(self, head: QueuedUpdate) -> _Answer:
        if self._session is None:
            raise RuntimeError("call start() first")
        headers = {"Content-Type": "application/json", "Accept-Encoding": "gzip, deflate"}
        if self.webhook.secret_token:
            headers["X-Telegram-Bot-Api-Secret-Token"] = self.webhook.secret_token
        try:
            async with self._session.post(
                self.webhook.url, data=head.body.encode(), headers=headers, allow_redirects=False
            ) as response:
                body = await response.content.read(MAX_ANSWER_BYTES + 1)
                while not response.content.at_eof() and len(body) <= MAX_ANSWER_BYTES:
                    body += await response.content.read(MAX_ANSWER_BYTES + 1)
                error = "Wrong response from the webhook: too big" if len(body) > MAX_ANSWER_BYTES else None
                if not 200 <= response.status <= 299:
                    error = f"Wrong response from the webhook: {response.status} {response.reason}"
                wait = response.headers.get("Retry-After", "")
                retry_after_s = int(wait) if wait.isascii() and wait.isdigit() and len(wait) < 6 else 0
                return _Answer(
                    response.status,
                    error,
                    retry_after_s if 1 <= retry_after_s <= 3600 else 0,
                    body,
                    response.content_type,
                )
        except TimeoutError:
            return _Answer(None, "Read timeout expired", 0)
        except (aiohttp.ClientError, OSError) as problem:
            reason = "Connection refused" if isinstance(problem, aiohttp.ClientConnectorError) else "Connection closed"
            return _Answer(None, reason, 0)

    def _log(self, head: QueuedUpdate, answer: _Answer, took_ms: float) -> None:
        """Keep the attempt, with what was sent and answered, and let the chat page know of it."""
        self._store.requests.add_webhook(
            "telegram",
            at_ms=self._clock.now_ms(),
            kind=head.kind,
            ref=str(head.update_id),
            chat=head.chat,
            body=json.loads(head.body),
            status=answer.status,
            answer=read_body(answer.body),
            error=answer.error,
            took_ms=took_ms,
        )

    async def _settle(self, head: QueuedUpdate, answer: _Answer, took_ms: float) -> None:
        if answer.is_success:
            self._gone_since_ms = None
            self.queue.mark_delivered(head, answer.status, took_ms)
            self._run_answer(answer)
            return
        delay_s, wait_ms = self._next(head, answer)
        self.queue.mark_failed(
            head, status=answer.status, error=answer.error, took_ms=took_ms, delay_s=delay_s, wait_ms=wait_ms
        )
        if not await self._remove_if_gone(answer, self._clock.now_ms()):
            # Even an immediate retry yields to the loop once, so that a server that always fails can't starve it.
            await asyncio.sleep(0)

    def _next(self, head: QueuedUpdate, answer: _Answer) -> tuple[int, int]:
        """The next delay of the schedule (s) and the wait before the next attempt (ms)."""
        if answer.retry_after_s:
            return head.delay_s, int(answer.retry_after_s * 1000 * self._config.retry_scale)
        if head.failures == 0:
            return head.delay_s, 0
        delay_s = min(head.delay_s * 2, random.randint(CAP_S, 2 * CAP_S))  # noqa: S311
        return delay_s, int(delay_s * 1000 * self._config.retry_scale)

    async def _remove_if_gone(self, answer: _Answer, now_ms: int) -> bool:
        """Remove the webhook after 410 for more than 23 h; True if that happened now."""
        if answer.status != 410:
            self._gone_since_ms = None
            return False
        self._gone_since_ms = self._gone_since_ms or now_ms
        if now_ms - self._gone_since_ms <= GONE_MS:
            return False
        logs.get().warning("telegram.webhook_removed", reason="410 Gone for 23 h")
        await self.set_webhook(WebhookSettings(allowed_updates=self.webhook.allowed_updates), drop_pending=False)
        return True

    def _run_answer(self, answer: _Answer) -> None:
        """Run the API call that an answer may contain; nobody sees its result."""
        if not answer.body.strip():
            return
        call = _read_call(answer)
        if call is not None:
            task = asyncio.create_task(self._execute_safely(*call))
            self._replies.add(task)
            task.add_done_callback(self._replies.discard)

    async def _execute_safely(self, method: str, params: Mapping[str, Any]) -> None:
        with suppress(asyncio.CancelledError):
            await self._execute(method, params)


def _read_webhook(kept: str) -> WebhookSettings:
    fields = json.loads(kept)
    return WebhookSettings(**{**fields, "allowed_updates": tuple(fields["allowed_updates"])})


def _read_call(answer: _Answer) -> tuple[str, dict[str, Any]] | None:
    """The method and parameters in a webhook's answer; None if it has none, or one that an answer may not call."""
    params: Any = None
    if answer.content_type == "application/x-www-form-urlencoded":
        params = dict(parse_qsl(answer.body.decode("utf-8", "replace")))
    else:
        with suppress(ValueError, RecursionError):
            params = msgspec.json.decode(answer.body)
    if not isinstance(params, dict) or not isinstance(params.get("method"), str):
        return None
    method = params.pop("method")
    if method.lower() in ("setwebhook", "deletewebhook", "close", "logout") or method.lower().startswith("get"):
        return None
    return method, params
