"""``ingest``: a platform's webhook in, rows out. It answers 2xx only when the event is stored.

``POST|GET /webhooks/{account}``: 200 (or what the platform wants) once committed and, where ``POSTROOM_DURABILITY``
says so, replicated; 401 bad signature; 404 unknown account; 413 too large. 503 with ``Retry-After`` if the event is not
stored, or not replicated yet: the platform then sends it again. A platform that waits for two seconds and never sends
again is answered within that time; if nothing was stored, the answer tells the person.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import apsw
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from shared.channels import account_secrets, registry
from shared.channels.base import Channel, Choice, Event, Received, WebhookReply, WebhookRequest
from shared.conversation.inbound import events, suggestions, withdrawals
from shared.conversation.routing.apply import Routed, sum_of
from shared.core import accounts, logs
from shared.core.errors import ConfigInvalid, NotReplicated, PayloadInvalid, SignatureInvalid, UnknownName
from shared.core.policy import AccessPolicy
from shared.core.settings import Settings
from shared.core.time import clock
from shared.core.time.patience import Patience
from shared.db.access import dropped
from shared.db.engine.connection import open_connection
from shared.db.engine.writer_process import RemoteWriter, WriterProcess
from shared.db.replica.sync import Replication
from shared.db.roster import accounts as roster
from shared.runtime import framework, request_line
from shared.runtime.app import AppResponse, function_app, read_body
from shared.runtime.service import FunctionService, LazyService
from shared.runtime.timely_work import GivenUp, TimelyWork

log = logs.get()

_RETRY_AFTER_S = "5"
_BRIEF_LIMIT_S = 1.4  # after which a platform that waits for 2 s gets no new row, and
_BRIEF_ANSWER_S = 1.8  # after which it is answered, also if the disk or the replica still works on one
_WITHDRAWS_AGAIN_S = (0.1, 0.5, 1.5)  # while the disk or another writer refuses; a stop waits for it
_STORE_LIMIT_S = 8.0  # less than the runner's 10 s, after which it answers 504, without Retry-After


class Ingest(FunctionService):
    """Stores events, and confirms that they are stored.

    ``storing`` stores them in a separate process. ``writer`` stores those of a platform with a short wait, because only
    work in this process can be given up before its commit.
    """

    def __init__(self, settings: Settings) -> None:
        self.replication = Replication(settings, registry.PLATFORMS)  # first: it may refuse the settings
        super().__init__(settings)
        self.policy = AccessPolicy.of(settings)
        handle = partial(events.handle_all, policy=self.policy)
        wake = partial(self.kick, "dispatch", "deliver", "api")
        self.storing = RemoteWriter(writer_process, settings.db, handle, writer=self.writer, on_end=wake)
        self._patience = Patience(_STORE_LIMIT_S)
        self._kicked: set[str] = set()  # in this turn of the event loop
        self._late: set[asyncio.Task[None]] = set()
        self._reader: apsw.Connection | None = None
        self._tokens_changed_ns: int | None = None

    def channel(self, account: str) -> Channel:
        """The adapter of the account that a URL names.

        Raises:
            UnknownName: there is no such account.
            ConfigInvalid: the account lacks a setting; the message names it.
            apsw.Error: the database can't tell which accounts there are.
        """
        if accounts.is_further(account):
            if not self._is_there(account):
                raise UnknownName("account", account, registry.PLATFORMS)
            self._forget_old_tokens()
        return registry.get(account)

    def _forget_old_tokens(self) -> None:
        """Forget the adapters if the file of tokens has changed."""
        changed_ns = account_secrets.changed_ns(self.settings.account_tokens)
        if changed_ns != self._tokens_changed_ns:
            self._tokens_changed_ns = changed_ns
            registry.get.cache_clear()

    def _is_there(self, account: str) -> bool:
        return roster.is_there(self._read(), account)

    def _read(self) -> apsw.Connection:
        """Opened for further accounts and for suggestions alone."""
        if self._reader is None:
            self._reader = open_connection(self.settings.db, readonly=True)
        return self._reader

    def ends_for(self, error: apsw.Error) -> bool:
        """Whether this process ends now, because a later release has migrated the database."""
        try:
            return isinstance(error, apsw.SQLError) and self.ends_as_outdated(self._read())
        except apsw.Error:
            return False

    async def store(
        self, channel: str, received: Received, scope: Scope, *, began_s: float, now_ms: int
    ) -> WebhookReply:
        """Store the events of one webhook in one transaction, which others may share; the answer to the platform.

        Args:
            scope: of the request, whose line in the log tells what was stored.
            began_s: when the request came, by the event loop's clock.
        """
        incoming = [event for event in received.events if event.kind != "ping"]
        if received.suggest is not None:
            return received.suggest(self._choices(channel, incoming))
        if not incoming or received.is_answered:
            return received.reply

        if received.too_late is None:
            storing = self._patience.wait(self.storing.submit(channel, incoming, now_ms))
            return await self._store(channel, received, scope, storing, began_s)

        def work(conn: apsw.Connection) -> list[Routed]:
            return events.handle_all(conn, channel, incoming, now_ms, policy=self.policy)

        return await self._store_in_time(
            channel, received, scope, received.too_late, work, began_s=began_s, now_ms=now_ms
        )

    async def _store(
        self, channel: str, received: Received, scope: Scope, storing: Awaitable[list[Routed]], began_s: float
    ) -> WebhookReply:
        routed = await storing
        total = routed[0] if len(routed) == 1 else sum_of(routed)
        self._kick_once(*_functions_to_kick(total))
        request_line.tell(scope, "ingest.stored", channel=channel, **_facts(total, routed))
        await self._confirm(channel, began_s)
        return received.reply if total.is_answered else received.not_taken or received.reply

    async def _store_in_time(
        self,
        channel: str,
        received: Received,
        scope: Scope,
        too_late: WebhookReply,
        work: Callable[[apsw.Connection], list[Routed]],
        *,
        began_s: float,
        now_ms: int,
    ) -> WebhookReply:
        """As ``_store``, with an answer within two seconds. What is not stored by then is not stored at all."""
        timely = TimelyWork(work)
        storing = asyncio.create_task(self._store(channel, received, scope, self.writer.run(timely), began_s))
        await _until(storing, began_s + _BRIEF_LIMIT_S)
        if not storing.done() and timely.give_up():
            log.error("ingest.not_stored", channel=channel, reason="another writer has locked the database")
        else:
            await _until(storing, began_s + _BRIEF_ANSWER_S)
        if storing.done() and storing.exception() is None:
            return storing.result()
        self._keep(self._withdraw(channel, received, storing, now_ms=now_ms))
        return too_late

    async def _withdraw(
        self, channel: str, received: Received, storing: asyncio.Task[WebhookReply], *, now_ms: int
    ) -> None:
        """Withdraw what was committed too late or not replicated: the person was told that nothing is done."""
        try:
            await storing
        except GivenUp:
            return
        except (apsw.Error, NotReplicated, TimeoutError) as error:
            log.warning("ingest.not_stored", channel=channel, reason=str(error))
        work = partial(withdrawals.withdraw, channel=channel, events=received.events, now_ms=now_ms)
        for pause_s in (*_WITHDRAWS_AGAIN_S, None):
            try:
                withdrawn = await self.writer.run(work)
                break
            except apsw.Error:
                log.exception("ingest.not_withdrawn", channel=channel)
                if pause_s is None:
                    return
                await asyncio.sleep(pause_s)
        log.warning("ingest.withdrawn", channel=channel, messages=withdrawn)
        self.kick("dispatch", "api")

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Continue *work* after the answer."""
        task = asyncio.create_task(work)
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    def _choices(self, channel: str, incoming: list[Event]) -> list[Choice]:
        try:
            return [choice for event in incoming for choice in suggestions.choices(self._read(), channel, event)]
        except apsw.Error:
            log.exception("ingest.no_choices", channel=channel)
            return []

    def _kick_once(self, *names: str) -> None:
        """Kick before anything else, and once for all events of a commit, whose requests resume together."""
        if not names:
            return
        if not self._kicked:
            asyncio.get_running_loop().call_soon(self._kicked.clear)
        new = [name for name in (*names, "api") if name not in self._kicked]
        self._kicked.update(new)
        self.kick(*new)

    async def _confirm(self, channel: str, began_s: float) -> None:
        """Wait for the replica, within its own limit and within that of the whole answer."""
        if not self.replication.is_awaited(channel):
            return
        left_s = began_s + _STORE_LIMIT_S - asyncio.get_running_loop().time()
        if left_s >= self.replication.limit_s:
            await self.replication.confirm(channel)
            return
        async with asyncio.timeout(left_s):
            await self.replication.confirm(channel)

    async def keep_unreadable(
        self, channel: Channel, body: bytes, reason: str, *, began_s: float, now_ms: int
    ) -> WebhookReply:
        """Record once why a signed body can't be read, however often it comes. The body is not kept."""
        key = hashlib.sha256(body).hexdigest()[:32]
        record = self.writer.submit(
            lambda conn: dropped.record(
                conn, channel=channel.name, reason="payload", detail=reason, event_key=f"body:{key}", now_ms=now_ms
            )
        )
        await self._patience.wait(record)
        await self._confirm(channel.name, began_s)
        return channel.unreadable

    async def close(self) -> None:
        await self.replication.close()
        await asyncio.gather(*self._late, return_exceptions=True)
        await self.storing.close()
        await super().close()
        if self._reader is not None:
            self._reader.close()


async def _until(task: asyncio.Task[Any], instant_s: float) -> None:
    """Wait for the end of *task*, at most until *instant_s* on the event loop's clock."""
    await asyncio.wait({task}, timeout=max(0.0, instant_s - asyncio.get_running_loop().time()))


def _functions_to_kick(routed: Routed) -> Iterator[str]:
    if routed.stored or routed.gathered or routed.changed:
        yield "dispatch"
    if routed.said:
        yield "deliver"


def _facts(total: Routed, routed: list[Routed]) -> dict[str, Any]:
    """The fields of the log line: the number of stored messages, and what else happened."""
    facts: dict[str, Any] = {"stored": total.stored}
    if total.dropped:
        facts["dropped"] = [each.dropped for each in routed if each.dropped]
    for name in ("held", "duplicates", "changed", "gathered"):
        if count := getattr(total, name):
            facts[name] = count
    return facts


writer_process = WriterProcess()
_service = LazyService(Ingest)
lifespan = _service.lifespan


async def _webhook(request: Request) -> Response:
    service = _service.get()
    name = request.path_params["account"]
    now_ms, began_s = clock.now_ms(), asyncio.get_running_loop().time()
    body = await read_body(request)
    asked = WebhookRequest(request.method, request.query_params, dict(request.headers), body)
    try:
        channel = service.channel(name)
        received = channel.receive(asked, now_ms=now_ms)
    except UnknownName as error:
        return JSONResponse({"error": str(error)}, status_code=404)
    except apsw.Error as error:
        log.exception("ingest.no_accounts", channel=name)
        return _later(f"the accounts can't be read: {type(error).__name__}")
    except ConfigInvalid as error:
        log.error("ingest.not_configured", channel=name, reason=str(error))
        return _later(f"channel {name} is not configured; the log says which setting is missing")
    except SignatureInvalid:
        log.warning("ingest.refused", channel=name, reason="signature", size_bytes=len(body))
        return JSONResponse({"error": "the signature is missing or wrong"}, status_code=401)
    except PayloadInvalid as error:
        log.warning("ingest.unreadable", channel=name, reason=str(error), size_bytes=len(body))
        work = service.keep_unreadable(channel, body, str(error), began_s=began_s, now_ms=now_ms)
    else:
        work = service.store(name, received, request.scope, began_s=began_s, now_ms=now_ms)
    return await _answer(service, name, work)


async def _answer(service: Ingest, name: str, work: Coroutine[Any, Any, WebhookReply]) -> Response:
    """The answer of an account to its platform, once *work* has stored the event; 503 if it could not."""
    try:
        reply = await work
    except TimeoutError:  # it may still be stored; the redelivery is a duplicate then
        log.error("ingest.not_stored", channel=name, reason="another writer has locked the database")
        return _later(f"not stored within {_STORE_LIMIT_S:g} s")
    except apsw.Error as error:
        log.exception("ingest.not_stored", channel=name)
        if service.ends_for(error):
            return _later("not stored: a later release has changed the database, so ingest starts again")
        return _later(f"not stored: {type(error).__name__}")
    except NotReplicated as error:
        log.warning("ingest.not_replicated", channel=name, reason=str(error))
        return _later("stored on this machine, but not in the replica yet")
    return Response(reply.body, reply.status, media_type=reply.content_type)


def _later(reason: str) -> Response:
    """503: the platform keeps the event and sends it again."""
    return JSONResponse({"error": reason}, status_code=503, headers={"Retry-After": _RETRY_AFTER_S})


async def _take(request: Request) -> Response:
    """Handle a webhook, unless the database is a copy of the past, which takes none."""
    past = _service.get().past
    return await _webhook(request) if past is None else _later(past.sentence)


def _problem() -> str | None:
    return _service.get().storing.problem


_app = function_app(
    "ingest",
    [Route("/webhooks/{account}", _take, methods=["GET", "POST"])],
    problem=_problem,
)


@framework.http
async def ingest(_: Request) -> Response:
    """The handler: any path; see the module's docstring."""
    return AppResponse(_app)
