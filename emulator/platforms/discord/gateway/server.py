"""A fake Gateway: the WebSocket that carries events to an app, with Discord's opcodes, limits and close codes.

It compresses as ``compress=zlib-stream`` if asked. An app that does not heartbeat loses its connection; an app that
closes with 1000 or 1001 loses its session. ``/control/discord/gateway`` disturbs all connections::

    GET  /control/discord/gateway                    {connections, sessions: [{id, intents, seq, is_connected}]}
    POST /control/discord/gateway   {"do": "reconnect" | "invalid" | "silence" | "speak" | "close", "code": 4000}

``reconnect`` sends op 7, ``invalid`` op 9; ``silence`` answers no heartbeat until ``speak``.

Source: https://discord.com/developers/docs/events/gateway, topics/opcodes-and-status-codes
"""

import asyncio
import json
import zlib
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
from aiohttp import WSMsgType, web

from emulator.platforms.config import PlatformsConfig
from emulator.platforms.discord.app import DiscordApp
from emulator.platforms.discord.gateway.sessions import ALL_INTENTS, PRIVILEGED, GatewaySession, GatewaySessions
from emulator.platforms.discord.guild_objects import GuildObjects

DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID, HELLO, ACK = 0, 1, 2, 6, 7, 9, 10, 11
TAKEN = frozenset({3, 4, 8, 31})  # presence, voice, members, soundboard: taken, and without effect here
DAY_MS = 86_400_000
MAX_PAYLOAD_BYTES = 4096
SENDS_PER_MINUTE = 120
UNKNOWN_OPCODE, DECODE_ERROR, NOT_AUTHENTICATED, REFUSED_TOKEN, ALREADY_IDENTIFIED = 4001, 4002, 4003, 4004, 4005
BAD_SEQ, TOO_FAST, TIMED_OUT, BAD_SHARD, BAD_VERSION, BAD_INTENTS, NO_SUCH_INTENT = (
    4007,
    4008,
    4009,
    4010,
    4012,
    4013,
    4014,
)


class CloseConnection(Exception):
    """The Gateway closes the connection with *code*."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


class FakeGateway:
    """The WebSocket server, and what all its connections share."""

    def __init__(
        self, config: PlatformsConfig, app: DiscordApp, sessions: GatewaySessions, guild: GuildObjects
    ) -> None:
        self.config, self.app, self.sessions, self.guild = config, app, sessions, guild
        self.is_silent = False
        self.url = ""
        self._starts_ms: deque[int] = deque()
        self._connections: set[_Connection] = set()

    def routes(self) -> list[web.AbstractRouteDef]:
        return [
            web.get("/discord/gateway", self._connect),
            web.get("/discord/gateway/", self._connect),
            web.get("/control/discord/gateway", self._show),
            web.post("/control/discord/gateway", self._disturb),
        ]

    def start_limit(self) -> dict[str, int]:
        """``session_start_limit`` of ``GET /gateway/bot``: how often the app may still identify today."""
        now_ms = self.config.clock.now_ms()
        while self._starts_ms and self._starts_ms[0] <= now_ms - DAY_MS:
            self._starts_ms.popleft()
        left, reset_ms = self.config.session_starts - len(self._starts_ms), DAY_MS
        if self._starts_ms:
            reset_ms = self._starts_ms[0] + DAY_MS - now_ms
        return {
            "total": self.config.session_starts, "remaining": left, "reset_after": reset_ms, "max_concurrency": 1
        }  # fmt: skip

    def take_start(self) -> bool:
        """Count one identify; False if none is left today."""
        if self.start_limit()["remaining"] <= 0:
            return False
        self._starts_ms.append(self.config.clock.now_ms())
        return True

    async def stop(self) -> None:
        for connection in tuple(self._connections):
            await connection.close(1001, "the fake Discord stops")

    async def _connect(self, request: web.Request) -> web.StreamResponse:
        connection = _Connection(self, compresses=request.query.get("compress") == "zlib-stream")
        self._connections.add(connection)
        try:
            return await connection.serve(request)
        finally:
            self._connections.discard(connection)

    async def _show(self, request: web.Request) -> web.Response:
        sessions = [
            {"id": each.id, "intents": each.intents, "seq": each.seq, "is_connected": each.send is not None}
            for each in self.sessions.all
        ]
        return web.json_response({"connections": len(self._connections), "sessions": sessions})

    async def _disturb(self, request: web.Request) -> web.Response:
        wanted = msgspec.json.decode(await request.read() or b"{}")
        do = wanted.get("do") if isinstance(wanted, dict) else None
        if do not in ("reconnect", "invalid", "silence", "speak", "close"):
            raise ValueError('"do" must be reconnect, invalid, silence, speak or close')
        if do in ("silence", "speak"):
            self.is_silent = do == "silence"
        for connection in tuple(self._connections):
            if do == "close":
                await connection.close(int(wanted.get("code", 4000)), "closed by the control API")
            elif do in ("reconnect", "invalid"):
                payload = {"op": RECONNECT, "d": None} if do == "reconnect" else {"op": INVALID, "d": False}
                connection.send(payload)
        return web.json_response({"done": do, "connections": len(self._connections)})


class _Connection:
    """One WebSocket, from Hello to its end."""

    def __init__(self, gateway: FakeGateway, *, compresses: bool) -> None:
        self._gateway, self._clock = gateway, gateway.config.clock
        self._ws = web.WebSocketResponse(max_msg_size=1 << 20)
        self._zlib = zlib.compressobj() if compresses else None
        self._out: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._sent_ms: deque[int] = deque()
        self._heard = asyncio.Event()
        self._session: GatewaySession | None = None
        self._closes = False  # this side closed first: the code that comes back is only an echo

    async def serve(self, request: web.Request) -> web.StreamResponse:
        await self._ws.prepare(request)
        tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._watch())]
        try:
            _check_query(request.query)
            self.send({"op": HELLO, "d": {"heartbeat_interval": self._gateway.config.heartbeat_ms, "_trace": ["fake"]}})
            async for message in self._ws:
                if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                    self._take(message.data)
        except CloseConnection as end:
            await self.close(end.code, end.reason)
        finally:
            self._leave()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return self._ws

    def send(self, payload: Mapping[str, Any]) -> None:
        self._out.put_nowait(payload)

    async def close(self, code: int, reason: str) -> None:
        self._closes = True
        await self._ws.close(code=code, message=reason.encode()[:120])

    async def _write(self) -> None:
        """Send what is queued, in order; the stream of zlib is one for the whole connection."""
        with suppress(ConnectionError):
            while True:
                text = json.dumps(await self._out.get(), ensure_ascii=False)
                if self._zlib is None:
                    await self._ws.send_str(text)
                else:
                    packed = self._zlib.compress(text.encode()) + self._zlib.flush(zlib.Z_SYNC_FLUSH)
                    await self._ws.send_bytes(packed)

    async def _watch(self) -> None:
        """Close a connection that misses its heartbeats."""
        while True:
            self._heard.clear()
            await self._clock.sleep(self._gateway.config.heartbeat_ms * 3 // 2)
            if not self._heard.is_set():
                await self.close(TIMED_OUT, "Session timed out.")
                return

    def _take(self, raw: str | bytes) -> None:
        payload = self._read(raw)
        op, data = payload.get("op"), payload.get("d")
        if op == HEARTBEAT:
            self._heard.set()
            if not self._gateway.is_silent:
                self.send({"op": ACK})
        elif op == IDENTIFY:
            self._identify(data if isinstance(data, dict) else {})
        elif op == RESUME:
            self._resume(data if isinstance(data, dict) else {})
        elif op not in TAKEN:
            raise CloseConnection(UNKNOWN_OPCODE, "Unknown opcode.")
        elif self._session is None:
            raise CloseConnection(NOT_AUTHENTICATED, "Not authenticated.")

    def _read(self, raw: str | bytes) -> dict[str, Any]:
        now_ms = self._clock.now_ms()
        while self._sent_ms and self._sent_ms[0] <= now_ms - 60_000:
            self._sent_ms.popleft()
        self._sent_ms.append(now_ms)
        if len(self._sent_ms) > SENDS_PER_MINUTE:
            raise CloseConnection(TOO_FAST, "Rate limited.")
        if len(raw) > MAX_PAYLOAD_BYTES:
            raise CloseConnection(DECODE_ERROR, "Error while decoding payload.")
        try:
            payload = msgspec.json.decode(raw)
        except (ValueError, RecursionError):
            payload = None
        if not isinstance(payload, dict):
            raise CloseConnection(DECODE_ERROR, "Error while decoding payload.")
        return payload

    def _identify(self, data: Mapping[str, Any]) -> None:
        gateway = self._gateway
        if self._session is not None:
            raise CloseConnection(ALREADY_IDENTIFIED, "Already authenticated.")
        self._check_token(data)
        if not gateway.take_start():
            raise CloseConnection(REFUSED_TOKEN, "Authentication failed.")  # Discord resets the token
        if not isinstance(data.get("properties"), dict):
            raise CloseConnection(DECODE_ERROR, "Error while decoding payload.")
        shard = data.get("shard", [0, 1])
        if shard != [0, 1]:
            raise CloseConnection(BAD_SHARD, "Invalid shard.")
        intents = data.get("intents")
        if not isinstance(intents, int) or not 0 <= intents <= ALL_INTENTS:
            raise CloseConnection(BAD_INTENTS, "Invalid intent(s).")
        if intents & PRIVILEGED & ~gateway.config.privileged_intents:
            raise CloseConnection(NO_SUCH_INTENT, "Disallowed intent(s).")
        self._session = gateway.sessions.open(intents, self.send)
        self._session.dispatch("READY", gateway.guild.ready(self._session.id, gateway.url, shard))
        if intents & 1:
            self._session.dispatch("GUILD_CREATE", gateway.guild.guild_create())

    def _resume(self, data: Mapping[str, Any]) -> None:
        self._check_token(data)
        session = self._gateway.sessions.get(str(data.get("session_id")))
        if session is None:
            self.send({"op": INVALID, "d": False})
            return
        seq = data.get("seq")
        if not isinstance(seq, int) or not 0 <= seq <= session.seq:
            raise CloseConnection(BAD_SEQ, "Invalid seq.")
        missed = session.missed(seq)
        if missed is None:
            self._gateway.sessions.end(session)
            self.send({"op": INVALID, "d": False})
            return
        for payload in missed:
            self.send(payload)
        session.send = self.send
        self._session = session
        session.dispatch("RESUMED", {"_trace": ["fake"]})

    def _check_token(self, data: Mapping[str, Any]) -> None:
        if str(data.get("token", "")).removeprefix("Bot ") != self._gateway.app.token:
            raise CloseConnection(REFUSED_TOKEN, "Authentication failed.")

    def _leave(self) -> None:
        """The connection ended: its session stays for a resume, unless the app closed with 1000 or 1001."""
        session = self._session
        if session is None:
            return
        if session.send == self.send:
            session.send = None
        if not self._closes and self._ws.close_code in (1000, 1001):
            self._gateway.sessions.end(session)


def _check_query(query: Mapping[str, str]) -> None:
    if query.get("v", "10") not in ("9", "10"):
        raise CloseConnection(BAD_VERSION, "Invalid API version.")
    if query.get("encoding", "json") != "json":
        raise CloseConnection(DECODE_ERROR, "This fake speaks JSON only.")
