"""Discord's side of an interactions endpoint: it is checked when registered, and called when somebody uses a command.

An interaction is signed (Ed25519 over timestamp and body), posted once, and must be answered within 3 s; otherwise its
token dies and the person reads "The application did not respond". A token that lives can be used for 15 minutes,
without the bot's token, to edit the original answer and to follow up.

Source: https://discord.com/developers/docs/interactions/receiving-and-responding
"""

import asyncio
import json
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web

from shared import logs
from shared.errors import ConfigInvalid

from .bus import Bus
from .cast import GUILD_ID
from .config import PlatformsConfig
from .discord import EPHEMERAL, LOADING, Discord, DiscordError, Result, invalid, pinged, read_body
from .store import Chat, Message, Person, Store
from .telegram_people import Impossible

MAX_PROMPT = 6000
NO_ANSWER = "The application did not respond"
CHAT_INPUT, PING = 2, 1


@dataclass(frozen=True, slots=True)
class Interaction:
    """One row: *state* is ``waiting``, ``deferred``, ``answered`` or ``dead``; *original* the answer's message id."""

    id: str
    token: str
    channel: str
    person: str
    message: str
    created_ms: int
    state: str
    original: str | None
    status: int | None
    error: str | None
    took_ms: float | None


_COLUMNS = "id, token, channel, person, message, created_ms, state, original, status, error, took_ms"


class Interactions:
    """Sends interactions, and serves what their tokens open."""

    def __init__(self, config: PlatformsConfig, store: Store, bus: Bus, discord: Discord) -> None:
        self._config, self._store, self._bus, self._discord = config, store, bus, discord
        self._clock = config.clock
        self._session: aiohttp.ClientSession | None = None
        self._answered: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Whoever waited for an answer when the last run ended won't get one."""
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self._config.deadline_ms / 1000), auto_decompress=True
        )
        rows: list[tuple[Any, ...]] = self._store.conn.execute(
            "SELECT id FROM interactions WHERE state = 'waiting'"
        ).fetchall()
        for (interaction_id,) in rows:
            self._die(self._read(interaction_id), None, "the emulator was stopped before an answer came")

    async def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    def routes(self) -> list[web.AbstractRouteDef]:
        webhook = "/webhooks/{app}/{token}"
        table = (
            ("POST", "/interactions/{interaction}/{token}/callback", self._callback),
            ("POST", webhook, self._follow_up),
            ("GET", webhook + "/messages/{message}", self._get),
            ("PATCH", webhook + "/messages/{message}", self._edit),
            ("DELETE", webhook + "/messages/{message}", self._delete),
        )
        routes: list[web.AbstractRouteDef] = [
            web.route(
                method, "/discord/api/v10" + path, self._discord.guarded(f"{method} {path}", run, needs_bot=False)
            )
            for method, path, run in table
        ]
        return routes

    # registration

    async def register(self) -> None:
        """Check the endpoint as Discord does before it takes the address. Raises ConfigInvalid with a sentence."""
        url = self._config.discord_interactions_url
        ping = {
            "version": 1,
            "type": PING,
            "id": str(self._discord.snowflake()),
            "token": secrets.token_urlsafe(32),
            "application_id": self._discord.app.id,
            "user": None,
            "entitlements": [],
        }
        body = json.dumps(ping).encode()
        status, kind, answer = await self._probe(body, self._sign(body))
        if status != 200 or kind != "application/json" or answer != {"type": 1}:
            shown = f"{status} {kind or 'without a type'}"
            raise ConfigInvalid(
                f"Discord refused {url}: a PING with a good signature was answered {shown};"
                ' it must be 200 application/json {"type":1}. Does ingest run with this DISCORD_PUBLIC_KEY?'
            )
        headers = self._sign(body)
        first = headers["X-Signature-Ed25519"][:2]
        headers["X-Signature-Ed25519"] = ("00" if first != "00" else "11") + headers["X-Signature-Ed25519"][2:]
        status, _, _ = await self._probe(body, headers)
        if status != 401:
            raise ConfigInvalid(
                f"Discord refused {url}: a request with a bad signature was answered {status}; it must be 401."
                " Verify every request over its raw body before anything else."
            )
        self._store.put("discord.endpoint", url)

    async def _probe(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, str, Any]:
        if self._session is None:
            raise RuntimeError("start() comes first")
        url = self._config.discord_interactions_url
        try:
            async with self._session.post(url, data=body, headers=headers, allow_redirects=False) as response:
                answer: Any = None
                with suppress(ValueError, RecursionError):
                    answer = json.loads(await response.read())
                return response.status, response.content_type, answer
        except (aiohttp.ClientError, OSError, TimeoutError) as problem:
            reason = "did not answer within 3 s" if isinstance(problem, TimeoutError) else "could not be reached"
            raise ConfigInvalid(
                f"Discord refused {url}: it {reason}. Start ingest first, or mend the address."
            ) from None

    def _sign(self, body: bytes) -> dict[str, str]:
        timestamp = str(self._clock.now_ms() // 1000)
        signature = self._discord.app.key.sign(timestamp.encode() + body).signature
        return {
            "Content-Type": "application/json",
            "User-Agent": "Discord-Interactions/1.0 (+https://discord.com)",
            "X-Signature-Ed25519": signature.hex(),
            "X-Signature-Timestamp": timestamp,
        }

    # a person uses a command

    def ask(self, person_id: str, prompt: str, *, channel_id: str | None = None, command: str = "ask") -> Interaction:
        """*person_id* sends ``/ask prompt``; the interaction is on its way when this returns."""
        person = self._store.person("discord", person_id)
        if person is None:
            raise Impossible(f"there is nobody with the id {person_id}")
        chat = self._channel(person, channel_id)
        if not prompt.strip():
            raise Impossible("there is nothing to ask: the text is empty")
        if len(prompt) > MAX_PROMPT:
            raise Impossible(f"Discord's apps take at most {MAX_PROMPT} characters in an option")
        interaction_id, token = str(self._discord.snowflake()), secrets.token_urlsafe(120)
        question = self._discord.add_message(
            chat, prompt, {"command": command, "interaction": interaction_id}, author=person.id
        )
        self._store.conn.execute(
            "INSERT INTO interactions (id, token, channel, person, message, created_ms) VALUES (?, ?, ?, ?, ?, ?)",
            (interaction_id, token, chat.id, person.id, question.id, self._clock.now_ms()),
        )
        interaction = self._read(interaction_id)
        body = json.dumps(self._payload(interaction, chat, person, prompt, command), ensure_ascii=False).encode()
        self._answered[interaction_id] = asyncio.Event()
        task = asyncio.create_task(self._deliver(interaction, body), name=f"discord interaction {interaction_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._tell(interaction)
        return interaction

    async def settled(self, interaction: Interaction) -> Interaction:
        """The interaction once it was answered or died."""
        for task in tuple(self._tasks):
            if task.get_name() == f"discord interaction {interaction.id}":
                await asyncio.wait([task])
        return self._read(interaction.id)

    def replay(self, interaction_id: str) -> Interaction:
        """Send an interaction again with the same id and token, as a replayed request would be."""
        row = self._store.conn.execute("SELECT message FROM interactions WHERE id = ?", (interaction_id,)).fetchone()
        if row is None:
            raise Impossible(f"there is no interaction {interaction_id}")
        interaction = self._read(interaction_id)
        chat, person = (
            self._store.chat("discord", interaction.channel),
            self._store.person("discord", interaction.person),
        )
        question = self._store.message(chat, interaction.message) if chat else None
        if chat is None or person is None or question is None:
            raise Impossible(f"the question of interaction {interaction_id} is gone")
        command = str(question.detail.get("command", "ask"))
        body = json.dumps(self._payload(interaction, chat, person, question.text, command), ensure_ascii=False).encode()
        task = asyncio.create_task(self._post_only(body), name=f"discord interaction {interaction_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return interaction

    async def _post_only(self, body: bytes) -> None:
        with suppress(ConfigInvalid):
            await self._probe(body, self._sign(body))

    def _channel(self, person: Person, channel_id: str | None) -> Chat:
        for chat in self._store.chats("discord"):
            is_meant = chat.id == channel_id if channel_id else chat.kind == "dm"
            if is_meant and person.id in chat.members:
                return chat
        raise Impossible(f"{person.name} is not in channel {channel_id}")

    def _payload(
        self, interaction: Interaction, chat: Chat, person: Person, prompt: str, command: str
    ) -> dict[str, Any]:
        """The body, as in a direct message or in a server."""
        user = self._discord.wire_user(person)
        options = [{"name": "prompt", "type": 3, "value": prompt}]
        common: dict[str, Any] = {
            "version": 1,
            "type": CHAT_INPUT,
            "id": interaction.id,
            "application_id": self._discord.app.id,
            "token": interaction.token,
            "locale": "en-US",
            "entitlements": [],
            "entitlement_sku_ids": [],
            "attachment_size_limit": 10_485_760,
            "channel": self._discord.wire_channel(chat),
            "channel_id": chat.id,
            "data": {"id": "1290000000000001319", "name": command, "type": 1, "options": options},
        }
        if chat.kind == "dm":
            return {
                **common,
                "user": user,
                "app_permissions": "562949953601536",
                "context": 1,
                "authorizing_integration_owners": {"0": "0"},
            }
        member: dict[str, Any] = {
            "user": user,
            "nick": None,
            "avatar": None,
            "banner": None,
            "roles": [],
            "deaf": False,
            "mute": False,
            "joined_at": "2026-01-02T03:04:05.678000+00:00",
            "premium_since": None,
            "flags": 0,
            "pending": False,
            "permissions": "2248473465835073",
            "communication_disabled_until": None,
        }
        return {
            **common,
            "guild_id": GUILD_ID,
            "guild": {"id": GUILD_ID, "features": [], "locale": "en-US"},
            "guild_locale": "en-US",
            "member": member,
            "app_permissions": "2248473465835073",
            "context": 0,
            "authorizing_integration_owners": {"0": GUILD_ID},
        }

    async def _deliver(self, interaction: Interaction, body: bytes) -> None:
        """Post once; the answer, a callback within the deadline, or death."""
        if self._session is None:
            raise RuntimeError("start() comes first")
        started = time.perf_counter()
        status: int | None = None
        try:
            async with asyncio.timeout(self._config.deadline_ms / 1000):
                async with self._session.post(
                    self._config.discord_interactions_url, data=body, headers=self._sign(body), allow_redirects=False
                ) as response:
                    answer, status, kind = await response.read(), response.status, response.content_type
                self._took(interaction, status, (time.perf_counter() - started) * 1000)
                if status == 202 and not answer:
                    await self._answered[interaction.id].wait()
                elif status != 200:
                    self._die(interaction, status, f"the endpoint answered {status}")
                elif kind != "application/json":
                    self._die(interaction, status, f"the answer came as {kind}, not application/json")
                else:
                    self._respond(self._read(interaction.id), json.loads(answer))
        except DiscordError as refusal:
            self._die(interaction, status, f"the answer is not valid: {json.dumps(refusal.body)}")
        except (ValueError, RecursionError):
            self._die(interaction, status, "the answer is not JSON")
        except TimeoutError:
            self._die(interaction, status, f"no answer within {self._config.deadline_ms / 1000:g} s")
        except (aiohttp.ClientError, OSError) as problem:
            is_refused = isinstance(problem, aiohttp.ClientConnectorError)
            self._die(interaction, status, "connection refused" if is_refused else "connection closed")
        finally:
            self._answered.pop(interaction.id, None)

    def _respond(self, interaction: Interaction, answer: Any) -> None:
        """Carry out an interaction response: 4 says something, 5 says "thinking…"."""
        if interaction.state != "waiting":
            raise DiscordError(400, 40060, "Interaction has already been acknowledged.")
        kind = answer.get("type") if isinstance(answer, dict) else None
        data = answer.get("data") or {} if isinstance(answer, dict) else {}
        if kind not in (4, 5) or not isinstance(data, dict):
            raise invalid("type", "BASE_TYPE_CHOICES", "This fake takes the types 4 and 5 in answer to a command.")
        flags = int(data.get("flags") or 0)
        chat = self._chat(interaction)
        if kind == 5:
            message = self._discord.add_message(
                chat, "", {"state": "thinking", "flags": (flags & EPHEMERAL) | LOADING, "interaction": interaction.id}
            )
        else:
            message = self._discord.add_message(chat, *self._spoken(interaction, data, flags))
        self._store.conn.execute(
            "UPDATE interactions SET state = ?, original = ?, flags = ? WHERE id = ?",
            ("deferred" if kind == 5 else "answered", message.id, flags, interaction.id),
        )
        self._tell(self._read(interaction.id))
        if (event := self._answered.get(interaction.id)) is not None:
            event.set()

    def _spoken(self, interaction: Interaction, body: Mapping[str, Any], flags: int) -> tuple[str, dict[str, Any]]:
        content = self._discord.content(body)
        pings, would_ping = pinged(content, body.get("allowed_mentions"), default=("users",))
        return content, {"flags": flags, "interaction": interaction.id, "pings": pings, "would_ping": would_ping}

    def _die(self, interaction: Interaction, status: int | None, error: str) -> None:
        """Nobody answered in time, or not validly. A callback that came first keeps the interaction alive."""
        rows = self._store.conn.execute(
            "UPDATE interactions SET state = 'dead', status = coalesce(?, status), error = ?"
            " WHERE id = ? AND state = 'waiting' RETURNING id",
            (status, error, interaction.id),
        ).fetchall()
        if rows:
            logs.get().warning("discord.interaction_died", interaction=interaction.id, reason=error)
            self._tell(self._read(interaction.id))

    def _took(self, interaction: Interaction, status: int, took_ms: float) -> None:
        self._store.conn.execute(
            "UPDATE interactions SET status = ?, took_ms = ? WHERE id = ?", (status, took_ms, interaction.id)
        )

    # what a token opens

    async def _callback(self, request: web.Request) -> Result:
        interaction = self._by_token(request.match_info["token"])
        if interaction is None or interaction.id != request.match_info["interaction"] or interaction.state == "dead":
            raise DiscordError(404, 10062, "Unknown interaction")
        self._respond(interaction, await read_body(request))
        return Result(204)

    async def _follow_up(self, request: web.Request) -> Result:
        interaction = self._live(request)
        content, detail = self._spoken(interaction, body := await read_body(request), 0)
        detail["flags"] = int(body.get("flags") or 0)
        chat = self._chat(interaction)
        original = self._store.message(chat, interaction.original or "")
        if original is not None and original.detail.get("state") == "thinking":
            return Result(200, self._discord.wire(chat, self._fill(interaction, original, content, detail)))
        return Result(200, self._discord.wire(chat, self._discord.add_message(chat, content, detail)))

    async def _get(self, request: web.Request) -> Result:
        interaction = self._live(request)
        return Result(200, self._discord.wire(self._chat(interaction), self._message(interaction, request)))

    async def _edit(self, request: web.Request) -> Result:
        interaction = self._live(request)
        message = self._message(interaction, request)
        content, detail = self._spoken(interaction, await read_body(request), message.detail.get("flags", 0))
        if message.detail.get("state") == "thinking":
            changed = self._fill(interaction, message, content, detail)
        else:  # an edit pings nobody
            changed = self._discord.change_message(message, content)
        return Result(200, self._discord.wire(self._chat(interaction), changed))

    async def _delete(self, request: web.Request) -> Result:
        interaction = self._live(request)
        self._discord.delete_message(self._message(interaction, request))
        return Result(204)

    def _fill(self, interaction: Interaction, message: Message, content: str, detail: Mapping[str, Any]) -> Message:
        """Turn "thinking…" into the answer."""
        flags = message.detail.get("flags", 0) & ~LOADING
        changed = self._discord.change_message(message, content, **{**detail, "flags": flags, "state": "done"})
        self._store.conn.execute("UPDATE interactions SET state = 'answered' WHERE id = ?", (interaction.id,))
        self._tell(self._read(interaction.id))
        return changed

    def _live(self, request: web.Request) -> Interaction:
        """The interaction whose token this is.

        Raises 10015 before it is acknowledged and when it never will be, 50027 after 15 min.
        """
        interaction = self._by_token(request.match_info["token"])
        if request.match_info["app"] != self._discord.app.id:
            raise DiscordError(404, 10015, "Unknown Webhook")
        if interaction is None:
            raise DiscordError(401, 50027, "Invalid Webhook Token")
        if interaction.state in ("waiting", "dead"):
            raise DiscordError(404, 10015, "Unknown Webhook")
        if self._clock.now_ms() - interaction.created_ms > self._config.token_life_ms:
            raise DiscordError(401, 50027, "Invalid Webhook Token")
        return interaction

    def _message(self, interaction: Interaction, request: web.Request) -> Message:
        wanted = request.match_info["message"]
        message_id = interaction.original or "" if wanted == "@original" else wanted
        message = self._store.message(self._chat(interaction), message_id)
        if message is None or message.detail.get("interaction") != interaction.id or not message.is_bot:
            raise DiscordError(404, 10008, "Unknown Message")
        return message

    # rows

    def _by_token(self, token: str) -> Interaction | None:
        return self._one("token", token)

    def _read(self, interaction_id: str) -> Interaction:
        found = self._one("id", interaction_id)
        if found is None:
            raise Impossible(f"there is no interaction {interaction_id}")
        return found

    def _one(self, column: str, value: str) -> Interaction | None:
        sql = {"id": "WHERE id = ?", "token": "WHERE token = ?"}[column]
        row = self._store.conn.execute(f"SELECT {_COLUMNS} FROM interactions {sql}", (value,)).fetchone()  # noqa: S608
        return Interaction(*row) if row else None

    def _chat(self, interaction: Interaction) -> Chat:
        chat = self._store.chat("discord", interaction.channel)
        if chat is None:
            raise DiscordError(404, 10003, "Unknown Channel")
        return chat

    def deliveries(self, *, channel: str | None = None, limit: int = 500) -> list[dict[str, Any]]:
        """How the last interactions fared, oldest first. Without their tokens."""
        rows = self._store.conn.execute(
            f"SELECT {_COLUMNS} FROM interactions WHERE (?1 IS NULL OR channel = ?1)"  # noqa: S608
            " ORDER BY created_ms DESC, id DESC LIMIT ?2",
            (channel, limit),
        ).fetchall()
        return [self.delivery(Interaction(*row)) for row in reversed(rows)]

    def delivery(self, interaction: Interaction) -> dict[str, Any]:
        states: Mapping[str, str] = {"waiting": "pending", "dead": "dropped"}
        left_ms = interaction.created_ms + self._config.token_life_ms - self._clock.now_ms()
        return {
            "platform": "discord",
            "interaction": interaction.id,
            "kind": "interaction",
            "chat": interaction.channel,
            "message": interaction.message,
            "state": states.get(interaction.state, "delivered"),
            "phase": interaction.state,
            "attempts": 0 if interaction.state == "waiting" else 1,
            "status": interaction.status,
            "error": interaction.error,
            "took_ms": interaction.took_ms,
            "created_ms": interaction.created_ms,
            "original": interaction.original,
            "token_left_ms": max(0, left_ms) if interaction.state != "dead" else 0,
            "notice": NO_ANSWER if interaction.state == "dead" else None,
        }

    def _tell(self, interaction: Interaction) -> None:
        self._bus.tell("delivery", self.delivery(interaction))
