"""Discord's side of interactions: a person uses a command or presses a button, and Discord calls the endpoint.

Discord posts an interaction once. Without an answer within 3 s its token dies, and the person reads "The application
did not respond". A live token works for 15 minutes, without the bot's token, to edit the original answer and to
follow up. After the answer "wait" (6) to a press, the original is the message with the button.

Source: https://discord.com/developers/docs/interactions/receiving-and-responding
"""

import asyncio
import json
import secrets
import time
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any

import aiohttp
from aiohttp import web

from emulator.platforms.bus import EventBus
from emulator.platforms.config import PlatformsConfig
from emulator.platforms.discord import payloads
from emulator.platforms.discord.api import FakeDiscord
from emulator.platforms.discord.calls import EPHEMERAL, LOADING, ApiResult, DiscordError, flags_of, invalid, read_body
from emulator.platforms.discord.endpoint import InteractionsEndpoint
from emulator.platforms.discord.interaction_rows import InteractionRow, InteractionRows
from emulator.platforms.discord.message_body import CHANGEABLE, UploadedPart, read_message
from emulator.platforms.errors import ActionRefused
from emulator.platforms.store import FakeChat, FakeMessage, FakePerson, PlatformStore
from shared.core.errors import ConfigInvalid

SAY, THINK, WAIT, CHANGE, SUGGEST, FORM = 4, 5, 6, 7, 8, 9  # the types of an answer
MOST_CHOICES = 25


class Interactions:
    """Sends interactions, and serves the routes of their tokens."""

    def __init__(self, config: PlatformsConfig, store: PlatformStore, bus: EventBus, discord: FakeDiscord) -> None:
        self._config, self._store, self._discord, self._bus = config, store, discord, bus
        self._clock = config.clock
        self.rows = InteractionRows(config, store, bus)
        self._endpoint = InteractionsEndpoint(config, discord.app.key, store.requests)
        discord.application.interactions_url = lambda: self._endpoint.url
        discord.application.set_interactions_url = self._set_url
        self._answered: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Open the connection, and mark interactions of the last run dead."""
        self._endpoint.start()
        self.rows.fail_waiting()

    async def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._endpoint.stop()

    async def register(self) -> None:
        """Check the endpoint as Discord does. Raises ConfigInvalid, whose message says what failed."""
        ping = payloads.ping(
            self._discord.app.id, id_=str(self._discord.snowflakes.next()), token=secrets.token_urlsafe(32)
        )
        await self._endpoint.check(json.dumps(ping).encode())

    async def _set_url(self, url: str | None) -> None:
        """The app sets its address, which Discord checks; None: interactions go to the Gateway. Raises 50035."""
        before, self._endpoint.url = self._endpoint.url, url
        try:
            if url is not None:
                await self.register()
        except ConfigInvalid as refused:
            self._endpoint.url = before
            code = "APPLICATION_INTERACTIONS_ENDPOINT_VERIFICATION_FAILED"
            raise invalid("interactions_endpoint_url", code, str(refused)) from None
        self._store.put("discord.interactions_url", url or "")

    def routes(self) -> list[web.AbstractRouteDef]:
        webhook = "/webhooks/{app}/{token}"
        table = (
            ("POST", "/interactions/{interaction}/{token}/callback", self._callback),
            ("POST", webhook, self._follow_up),
            ("GET", webhook + "/messages/{message}", self._get),
            ("PATCH", webhook + "/messages/{message}", self._edit),
            ("DELETE", webhook + "/messages/{message}", self._delete),
        )
        return self._discord.guard.routes(table, needs_bot=False)

    # out

    def begin(
        self,
        interaction_id: str,
        chat: FakeChat,
        person: FakePerson,
        message: FakeMessage,
        custom_id: str | None = None,
        *,
        particular: Mapping[str, Any] | None = None,
        kind: str | None = None,
    ) -> InteractionRow:
        """A person used a command, or a component under *message*. The delivery runs when this returns.

        Args:
            particular: the fields of the body that other interactions lack; None means ``/ask``, or a button.
            kind: ``interaction press select modal``; None means the first for a command, the second for a component.
        """
        interaction = self.rows.add(
            interaction_id, chat, person, message, custom_id, particular=particular, kind=kind or _kind(custom_id)
        )
        self._answered[interaction_id] = asyncio.Event()
        self._work(interaction, self._deliver(interaction, self._body(interaction, chat, person, message)))
        return interaction

    def _body(self, interaction: InteractionRow, chat: FakeChat, person: FakePerson, message: FakeMessage) -> bytes:
        if interaction.particular is not None:
            particular = json.loads(interaction.particular)
        elif interaction.custom_id is None:
            particular = payloads.command(str(message.detail.get("command", "ask")), message.text)
        else:
            particular = payloads.press(self._discord.objects, chat, message, interaction.custom_id)
        return self._wired(chat, person, particular, id_=interaction.id, token=interaction.token)

    def _wired(self, chat: FakeChat, person: FakePerson, particular: dict[str, Any], *, id_: str, token: str) -> bytes:
        payload = payloads.interaction(
            self._discord.objects,
            chat,
            person,
            particular,
            application_id=self._discord.app.id,
            id_=id_,
            token=token,
        )
        return json.dumps(payload, ensure_ascii=False).encode()

    async def choices(self, chat: FakeChat, person: FakePerson, particular: dict[str, Any]) -> list[dict[str, Any]]:
        """What the app suggests while a person types. Nothing of it is kept. Raises ActionRefused with the reason."""
        id_, token = str(self._discord.snowflakes.next()), secrets.token_urlsafe(120)
        try:
            async with asyncio.timeout(self._config.deadline_ms / 1000):
                answer = await self._endpoint.post(self._wired(chat, person, particular, id_=id_, token=token))
        except (aiohttp.ClientError, OSError, TimeoutError):
            raise ActionRefused("the app did not answer in time, so it suggests nothing") from None
        data = answer.payload.get("data") if isinstance(answer.payload, dict) else None
        found = data.get("choices") if isinstance(data, dict) else None
        if answer.status != 200 or answer.payload.get("type") != SUGGEST or not isinstance(found, list):
            raise ActionRefused(f"the app answered {answer.status}, not with suggestions (type {SUGGEST})")
        if len(found) > MOST_CHOICES or not all(isinstance(each, dict) and "value" in each for each in found):
            raise ActionRefused(f"the app's suggestions are not valid: at most {MOST_CHOICES}, each with a value")
        return found

    def _work(self, interaction: InteractionRow, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=f"discord interaction {interaction.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait_settled(self, interaction: InteractionRow) -> InteractionRow:
        """Wait until the interaction is answered or dead; its row."""
        for task in tuple(self._tasks):
            if task.get_name() == f"discord interaction {interaction.id}":
                await asyncio.wait([task])
        return self.rows.get(interaction.id)

    def replay(self, interaction_id: str) -> InteractionRow:
        """Send an interaction again with the same id and token, as in a replay attack."""
        interaction = self.rows.get(interaction_id)
        chat = self._store.chat("discord", interaction.channel)
        person = self._store.person("discord", interaction.person)
        message = self._store.message(chat, interaction.message) if chat else None
        if chat is None or person is None or message is None:
            raise ActionRefused(f"interaction {interaction_id} can't be sent again: its message is deleted")
        self._work(interaction, self._post_only(self._body(interaction, chat, person, message)))
        return interaction

    async def _post_only(self, body: bytes) -> None:
        with suppress(aiohttp.ClientError, OSError, TimeoutError):
            await self._endpoint.post(body)

    async def _deliver(self, interaction: InteractionRow, body: bytes) -> None:
        """Post once. The interaction is answered in the response or by a callback within the deadline, or it dies."""
        started = time.perf_counter()
        status: int | None = None
        try:
            async with asyncio.timeout(self._config.deadline_ms / 1000):
                if self._endpoint.url is None:
                    self._discord.sessions.publish("INTERACTION_CREATE", None, json.loads(body))
                    await self._answered[interaction.id].wait()
                    return
                answer = await self._endpoint.post(body)
                status = answer.status
                self.rows.record_status(interaction, status, (time.perf_counter() - started) * 1000)
                if status == 202 and not answer.body:
                    await self._answered[interaction.id].wait()
                elif status != 200:
                    self.rows.mark_dead(interaction, status, f"the endpoint answered {status}")
                elif answer.kind != "application/json":
                    self.rows.mark_dead(interaction, status, f"the answer came as {answer.kind}, not application/json")
                elif answer.payload is None:
                    self.rows.mark_dead(interaction, status, "the answer is not JSON")
                else:
                    self._respond(self.rows.get(interaction.id), answer.payload)
        except DiscordError as refusal:
            self.rows.mark_dead(interaction, status, f"the answer is not valid: {json.dumps(refusal.body)}")
        except TimeoutError:
            self.rows.mark_dead(interaction, status, f"no answer within {self._config.deadline_ms / 1000:g} s")
        except (aiohttp.ClientError, OSError) as problem:
            is_refused = isinstance(problem, aiohttp.ClientConnectorError)
            self.rows.mark_dead(interaction, status, "connection refused" if is_refused else "connection closed")
        finally:
            self._answered.pop(interaction.id, None)

    def _respond(self, interaction: InteractionRow, answer: Any) -> None:
        """Apply an interaction response: a message or "thinking…"; for a press also "wait" or a changed message."""
        if interaction.state != "waiting":
            raise DiscordError(400, 40060, "Interaction has already been acknowledged.")
        kind = answer.get("type") if isinstance(answer, dict) else None
        data = answer.get("data") or {} if isinstance(answer, dict) else {}
        taken: tuple[int, ...] = (SAY, THINK) if interaction.custom_id is None else (SAY, THINK, WAIT, CHANGE)
        taken += () if interaction.kind == "modal" else (FORM,)
        if kind is None or kind not in taken or not isinstance(data, dict):
            what = "a command" if interaction.custom_id is None else "a press"
            raise invalid("type", "BASE_TYPE_CHOICES", f"This fake takes the types {taken} in answer to {what}.")
        if kind == FORM:
            self._open_form(interaction, data)
        flags = flags_of(data)
        original = self._first_answer(interaction, kind, data, flags)
        self.rows.mark_acknowledged(interaction, is_deferred=kind in (THINK, WAIT), original=original)
        if (event := self._answered.get(interaction.id)) is not None:
            event.set()

    def _first_answer(self, interaction: InteractionRow, kind: int, data: Mapping[str, Any], flags: int) -> str:
        """Show the first answer; returns the id of the original message."""
        chat = self._chat(interaction)
        if kind == SAY:
            return self._discord.messages.add(chat, *self._spoken(interaction, data, [])).id
        if kind == THINK:
            detail = {"state": "thinking", "interaction": interaction.id}
            seen_by = _seen_by(interaction, flags)
            return self._discord.messages.add(chat, "", {**detail, **seen_by, "flags": seen_by["flags"] | LOADING}).id
        pressed = self._store.message(chat, interaction.message)
        if kind == FORM:
            return ""
        if pressed is not None and kind == CHANGE:
            self._discord.messages.edit(pressed, data)
        return interaction.message

    def _open_form(self, interaction: InteractionRow, data: Mapping[str, Any]) -> None:
        """Show the person a form. Raises 50035."""
        components = data.get("components")
        if not 1 <= len(str(data.get("title") or "")) <= 45:
            raise invalid("data", "BASE_TYPE_BAD_LENGTH", "title: Must be between 1 and 45 in length.")
        if not 1 <= len(str(data.get("custom_id") or "")) <= 100:
            raise invalid("data", "BASE_TYPE_BAD_LENGTH", "custom_id: Must be between 1 and 100 in length.")
        if not isinstance(components, list) or not 1 <= len(components) <= 5:
            raise invalid("data", "BASE_TYPE_BAD_LENGTH", "components: Must be between 1 and 5 in length.")
        modal = {"custom_id": data["custom_id"], "title": data["title"], "components": components}
        self.rows.keep_modal(interaction.id, modal)
        place = {"platform": "discord", "chat": interaction.channel, "person": interaction.person}
        self._bus.publish("modal", {**place, "interaction": interaction.id, **modal})

    def _spoken(
        self,
        interaction: InteractionRow,
        body: Mapping[str, Any],
        uploads: list[UploadedPart],
        flags: int | None = None,
    ) -> tuple[str, dict[str, Any]]:
        """Text and detail of an answer; *flags* are those of the deferred message that it fills."""
        content, detail = self._discord.messages.bodies.created(body, uploads, pings=("users",))
        kept = detail["flags"] if flags is None else flags | (detail["flags"] & CHANGEABLE)
        return content, {**detail, "interaction": interaction.id, **_seen_by(interaction, kept)}

    # routes of a token

    async def _callback(self, request: web.Request) -> ApiResult:
        interaction = self.rows.by_token(request.match_info["token"])
        if interaction is None or interaction.id != request.match_info["interaction"] or interaction.state == "dead":
            raise DiscordError(404, 10062, "Unknown interaction")
        body = await read_body(request)
        self._respond(interaction, body)
        if request.query.get("with_response", "").lower() in ("true", "1"):
            return ApiResult(200, self._answered_with(self.rows.get(interaction.id), int(body["type"])))
        return ApiResult(204)

    def _answered_with(self, interaction: InteractionRow, kind: int) -> dict[str, Any]:
        """The InteractionCallbackResponse: what became of the interaction, and its message if there is one."""
        types = {"interaction": 2, "press": 3, "select": 3, "modal": 5}
        told: dict[str, Any] = {
            "id": interaction.id,
            "type": types[interaction.kind],
            "channel_id": interaction.channel,
        }
        chat = self._chat(interaction)
        message = self._store.message(chat, interaction.original) if interaction.original else None
        if message is None:
            return {"interaction": told}
        flags = message.detail.get("flags", 0)
        told["response_message_id"] = message.id
        told["response_message_loading"] = bool(flags & LOADING)
        told["response_message_ephemeral"] = bool(flags & EPHEMERAL)
        if kind not in (SAY, CHANGE):
            return {"interaction": told}
        return {
            "interaction": told,
            "resource": {"type": kind, "message": self._discord.objects.message(chat, message)},
        }

    async def _follow_up(self, request: web.Request) -> ApiResult:
        interaction = self._live(request)
        body, uploads = await read_message(request)
        content, detail = self._spoken(interaction, body, uploads)
        chat = self._chat(interaction)
        original = self._store.message(chat, interaction.original or "")
        if original is not None and original.detail.get("state") == "thinking":
            return ApiResult(
                200, self._discord.objects.message(chat, self._fill(interaction, original, content, detail))
            )
        return ApiResult(200, self._discord.objects.message(chat, self._discord.messages.add(chat, content, detail)))

    async def _get(self, request: web.Request) -> ApiResult:
        interaction = self._live(request)
        return ApiResult(
            200, self._discord.objects.message(self._chat(interaction), self._message(interaction, request))
        )

    async def _edit(self, request: web.Request) -> ApiResult:
        interaction = self._live(request)
        message = self._message(interaction, request)
        body, uploads = await read_message(request)
        if message.detail.get("state") == "thinking":
            content, detail = self._spoken(interaction, body, uploads, message.detail.get("flags", 0))
            changed = self._fill(interaction, message, content, detail)
        else:
            changed = self._discord.messages.edit(message, body, uploads)
            self.rows.mark_answered(interaction)
        return ApiResult(200, self._discord.objects.message(self._chat(interaction), changed))

    async def _delete(self, request: web.Request) -> ApiResult:
        interaction = self._live(request)
        self._discord.messages.delete(self._message(interaction, request))
        return ApiResult(204)

    def _fill(
        self, interaction: InteractionRow, message: FakeMessage, content: str, detail: Mapping[str, Any]
    ) -> FakeMessage:
        """Replace "thinking…" by the answer."""
        flags = detail["flags"] & ~LOADING
        changed = self._discord.messages.change(message, content, **{**detail, "flags": flags, "state": "done"})
        self.rows.mark_answered(interaction)
        return changed

    def _live(self, request: web.Request) -> InteractionRow:
        """The interaction of the token in the path.

        Raises 10015 for an interaction without a first answer, 50027 after 15 minutes.
        """
        interaction = self.rows.by_token(request.match_info["token"])
        if request.match_info["app"] != self._discord.app.id:
            raise DiscordError(404, 10015, "Unknown Webhook")
        if interaction is None:
            raise DiscordError(401, 50027, "Invalid Webhook Token")
        if interaction.state in ("waiting", "dead"):
            raise DiscordError(404, 10015, "Unknown Webhook")
        if self._clock.now_ms() - interaction.created_ms > self._config.token_life_ms:
            raise DiscordError(401, 50027, "Invalid Webhook Token")
        return interaction

    def _message(self, interaction: InteractionRow, request: web.Request) -> FakeMessage:
        wanted = request.match_info["message"]
        message_id = interaction.original or "" if wanted == "@original" else wanted
        message = self._store.message(self._chat(interaction), message_id)
        is_its = message is not None and message.is_bot and message.detail.get("interaction") == interaction.id
        if message is None or not (is_its or message.id == interaction.original):
            raise DiscordError(404, 10008, "Unknown Message")
        return message

    def _chat(self, interaction: InteractionRow) -> FakeChat:
        chat = self._store.chat("discord", interaction.channel)
        if chat is None:
            raise DiscordError(404, 10003, "Unknown Channel")
        return chat


def _kind(custom_id: str | None) -> str:
    return "interaction" if custom_id is None else "press"


def _seen_by(interaction: InteractionRow, flags: int) -> dict[str, Any]:
    """The detail that limits a message with the flag EPHEMERAL to the person who caused it."""
    kept = flags & ~LOADING
    return {"flags": kept, "for": interaction.person} if flags & EPHEMERAL else {"flags": kept}
