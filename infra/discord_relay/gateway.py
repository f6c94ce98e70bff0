"""The connection to Discord's Gateway: identify, resume, heartbeat, and every frame into the outbox.

Source: https://docs.discord.com/developers/events/gateway.
"""

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from infra.discord_relay import closings
from infra.discord_relay.closings import Next
from infra.discord_relay.outbox import Outbox, RelayedFrame
from infra.discord_relay.state import Channels, RelayState, StateFile
from shared.channels.discord.api import USER_AGENT
from shared.core import logs
from shared.core.errors import ConfigInvalid
from shared.core.text import half_characters

INTENTS = 1 << 0 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 13  # guilds, messages and reactions there and in direct chats
CONTENT = 1 << 15  # the content of messages that don't mention the bot; Discord has to allow it

_RELAYED = (
    *("MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE"),
    *("MESSAGE_REACTION_ADD", "MESSAGE_REACTION_REMOVE"),
)
_THREADS = (10, 11, 12)
_FEWEST_STARTS = 5  # when the last start of a day is used up, Discord resets the bot's token
_HELLO_LIMIT_S = 30.0
_ANSWER_LIMIT = aiohttp.ClientTimeout(total=15)
_CLOSE_LIMIT = aiohttp.ClientWSTimeout(ws_close=2.0)
_LONGEST_PAUSE_S = 60.0
_DISPATCH, _HEARTBEAT, _IDENTIFY, _RESUME, _RECONNECT, _INVALID, _HELLO, _ACK = 0, 1, 2, 6, 7, 9, 10, 11

log = logs.get()


class GatewayUnavailable(Exception):
    """The Gateway can't be reached now, or not be entered; the message says why, without a secret."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class RelayOptions:
    """Whom the relay is for.

    Attributes:
        api: the address of Discord's API, without a slash at its end.
        intents: which events it asks for.
    """

    api: str
    token: str
    application_id: str
    intents: int = INTENTS

    @property
    def bot(self) -> str:
        return f"{self.application_id}/{self.intents}"


class GatewayClient:
    """Holds one connection after another.

    Args:
        sleep: waits so many seconds.
    """

    def __init__(
        self,
        http: aiohttp.ClientSession,
        options: RelayOptions,
        file: StateFile,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._http, self._options, self._file, self._sleep = http, options, file, sleep
        found = file.read()
        self._state = found if found.bot == options.bot else RelayState(bot=options.bot, parents=found.parents)
        self._channels = Channels(self._state.parents)
        self._received = self._state.seq
        self._failures = 0
        self._is_acked = True
        self.outbox: Outbox | None = None

    def note_stored(self, frame: RelayedFrame) -> None:
        """``ingest`` has this frame and all before it. The first of a session is saved at once: a kill may come."""
        if frame.session_id != self._state.session_id:
            return
        is_first = self._state.seq is None
        self._state.seq = frame.seq
        if is_first:
            self.save()

    def save(self) -> None:
        """Write the state; a failure costs repetitions after a restart, and is logged."""
        self._state.parents = self._channels.as_dict()
        try:
            self._file.write(self._state)
        except OSError as error:
            log.warning("relay.state_not_written", reason=str(error))

    async def run(self, outbox: Outbox) -> None:
        """Relay until cancelled.

        Raises:
            ConfigInvalid: Discord refuses this bot for good; the message says what to do.
        """
        self.outbox = outbox
        while True:
            await outbox.room()
            try:
                following = await self._connect()
            except GatewayUnavailable as error:
                log.warning("relay.no_gateway", reason=str(error))
                await self._pause(error.wait_s)
                continue
            if following == "identify":
                self._state.session_id, self._state.seq, self._received = "", None, None
                await self._sleep(random.uniform(1, 5))  # noqa: S311 - as Discord asks; it keeps no secret
            else:
                await self._pause(None)

    async def _pause(self, wait_s: float | None) -> None:
        """Longer after each connection in a row that brought nothing."""
        longest_s = min(2.0**self._failures, _LONGEST_PAUSE_S)
        await self._sleep(random.uniform(0, longest_s) if wait_s is None else wait_s)  # noqa: S311
        self._failures = min(self._failures + 1, 10)

    async def _connect(self) -> Next:
        """One connection, from its beginning to its end, and what follows."""
        is_resumed = bool(self._state.session_id)
        url = self._state.resume_url if is_resumed else await self._gateway_url()
        try:
            address = f"{url}/?v=10&encoding=json"
            async with self._http.ws_connect(address, max_msg_size=0, timeout=_CLOSE_LIMIT) as ws:
                beats = asyncio.create_task(self._beat(ws, await self._hello(ws)))
                try:
                    await self._enter(ws, is_resumed=is_resumed)
                    return await self._read(ws)
                finally:
                    beats.cancel()
                    with suppress(asyncio.CancelledError, ConnectionError):
                        await beats
                    with suppress(ConnectionError):
                        await ws.close(code=closings.OURS)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise GatewayUnavailable(f"the Gateway can't be reached ({type(error).__name__})") from None

    async def _gateway_url(self) -> str:
        """The address for a new session, if the bot may begin one today."""
        headers = {"Authorization": f"Bot {self._options.token}", "User-Agent": USER_AGENT}
        try:
            async with self._http.get(
                f"{self._options.api}/gateway/bot", headers=headers, timeout=_ANSWER_LIMIT
            ) as answer:
                status, body = answer.status, await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise GatewayUnavailable(f"Discord can't be reached ({type(error).__name__})") from None
        if status == 401:
            raise ConfigInvalid(closings.sentence(4004))
        try:
            found = msgspec.json.decode(body)
            url, limit = str(found["url"]), found["session_start_limit"]
            remaining, reset_ms = int(limit["remaining"]), int(limit["reset_after"])
        except (ValueError, KeyError, TypeError):
            raise GatewayUnavailable(f"Discord answered {status} to the question for the Gateway") from None
        if remaining < _FEWEST_STARTS:
            reason = f"only {remaining} starts of a session are left today; the relay waits until there are more"
            raise GatewayUnavailable(reason, reset_ms / 1000)
        return url.rstrip("/")

    async def _hello(self, ws: aiohttp.ClientWebSocketResponse) -> float:
        """The seconds between two heartbeats."""
        async with asyncio.timeout(_HELLO_LIMIT_S):
            message = await ws.receive()
        hello = _frame(message)
        if hello.get("op") != _HELLO or not isinstance(hello.get("d"), dict):
            raise GatewayUnavailable("the Gateway did not say hello")
        return float(hello["d"]["heartbeat_interval"]) / 1000

    async def _enter(self, ws: aiohttp.ClientWebSocketResponse, *, is_resumed: bool) -> None:
        token = self._options.token
        if is_resumed:
            known = {"token": token, "session_id": self._state.session_id, "seq": self._received or 0}
            await _send(ws, _RESUME, known)
            return
        properties = {"os": "linux", "browser": "postroom", "device": "postroom"}
        await _send(ws, _IDENTIFY, {"token": token, "intents": self._options.intents, "properties": properties})

    async def _beat(self, ws: aiohttp.ClientWebSocketResponse, interval_s: float) -> None:
        """Heartbeat until cancelled; a connection that answers none is dead, and closed."""
        self._is_acked = True
        await self._sleep(interval_s * random.random())  # noqa: S311 - spreads clients, as Discord asks
        while self._is_acked:
            self._is_acked = False
            await _send(ws, _HEARTBEAT, self._received)
            await self._sleep(interval_s)
            self.save()
        log.warning("relay.zombie", reason="the Gateway answered no heartbeat")
        await ws.close(code=closings.OURS)

    async def _read(self, ws: aiohttp.ClientWebSocketResponse) -> Next:
        """Take frames until the connection ends."""
        while True:
            message = await ws.receive()
            if message.type not in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                return self._after_close(ws.close_code)
            frame = _frame(message)
            match frame.get("op"):
                case 0 if not await self._take(frame):
                    log.warning("relay.full", reason="ingest is behind; Discord repeats what follows")
                    return "resume"
                case 1:
                    await _send(ws, _HEARTBEAT, self._received)
                case 7:
                    return "resume"
                case 9:
                    return "resume" if frame.get("d") is True else "identify"
                case 11:
                    self._is_acked = True

    def _after_close(self, code: int | None) -> Next:
        following = closings.after_close(code)
        if following == "stop":
            raise ConfigInvalid(closings.sentence(code))
        log.info("relay.cut", code=code, then=following)
        return following

    async def _take(self, frame: dict[str, Any]) -> bool:
        """Keep one frame; False: there is no room for it."""
        name, seq, data = frame.get("t"), frame.get("s"), frame.get("d")
        if not isinstance(seq, int) or self.outbox is None:
            return True
        if name == "READY" and isinstance(data, dict):
            self._state.session_id = str(data.get("session_id"))
            self._state.resume_url = str(data.get("resume_gateway_url")).rstrip("/")
            self._received = None
        elif self._received is not None and seq <= self._received:
            return True  # repeated by the resume, and here already
        if not self.outbox.has_room:
            return False
        self._received = seq
        if name in ("READY", "RESUMED"):
            self._failures = 0
            log.info("relay.ready" if name == "READY" else "relay.resumed")
        self._channels.learn(name, data)
        body = await self._body(frame) if name in _RELAYED and isinstance(data, dict) and _is_wanted(data) else None
        await self.outbox.put(RelayedFrame(self._state.session_id, seq, self._webhook_id(seq), body))
        return True

    def _webhook_id(self, seq: int) -> str:
        """The same for every repetition of the frame."""
        return "gateway_" + hashlib.blake2b(f"{self._state.session_id}:{seq}".encode(), digest_size=16).hexdigest()

    async def _body(self, frame: dict[str, Any]) -> bytes:
        parent = await self._parent_of(frame["d"])
        return msgspec.json.encode(frame | ({"x_parent_id": parent} if parent else {}))

    async def _parent_of(self, data: dict[str, Any]) -> str | None:
        """The channel of the thread in which it happened; Discord is asked about a channel that no frame has named."""
        channel = str(data.get("channel_id"))
        is_new = "guild_id" in data and not self._channels.knows(channel)
        if is_new and data.get("channel_type") in (None, *_THREADS):
            await self._ask(channel)
        return self._channels.parent_of(channel)

    async def _ask(self, channel: str) -> None:
        headers = {"Authorization": f"Bot {self._options.token}", "User-Agent": USER_AGENT}
        if not channel.isdigit():
            return
        try:
            async with self._http.get(
                f"{self._options.api}/channels/{channel}", headers=headers, timeout=_ANSWER_LIMIT
            ) as answer:
                found = msgspec.json.decode(await answer.read()) if answer.status == 200 else {}
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            log.warning("relay.channel_unknown", channel=channel, reason=type(error).__name__)
            return
        is_thread = isinstance(found, dict) and found.get("type") in _THREADS
        self._channels.put(channel, str(found["parent_id"]) if is_thread and found.get("parent_id") else None)


def _is_wanted(data: dict[str, Any]) -> bool:
    """Whether it may concern an agent: bots' messages don't, nor those whose content Discord withholds."""
    author = data.get("author")
    if author is None:
        return "content" not in data  # a reaction or a deletion
    is_bots = isinstance(author, dict) and author.get("bot") is True
    shown = ("content", "attachments", "components", "message_snapshots")
    return not is_bots and "webhook_id" not in data and any(data.get(each) for each in shown)


def _frame(message: aiohttp.WSMessage) -> dict[str, Any]:
    """The object in a message of the WebSocket; empty where it holds none."""
    if message.type not in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
        return {}
    data = message.data.encode() if isinstance(message.data, str) else message.data
    try:
        found = msgspec.json.decode(half_characters.mend_json(data))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


async def _send(ws: aiohttp.ClientWebSocketResponse, op: int, data: object) -> None:
    with suppress(ConnectionError):  # the reader sees the end of the connection, and why
        await ws.send_str(msgspec.json.encode({"op": op, "d": data}).decode())
