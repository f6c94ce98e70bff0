"""Discord: calls of its REST API, interactions, which it signs and brings once, and the frames that a relay brings.

The relay brings one frame after another, each until it is stored. An interaction is taken within three seconds, or its
person is told that the application did not respond. What is answered with "thinking" opens its token.
"""

import asyncio
import json
import random
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from nacl.signing import SigningKey

from shared.channels import standard_webhooks
from tests.simulation.machine.process import Reset
from tests.simulation.machine.seams import BEGAN_MS
from tests.simulation.machine.wires import Asked, Told
from tests.simulation.parts import Surroundings, Work
from tests.simulation.platforms import forms
from tests.simulation.platforms.base import Platform
from tests.simulation.platforms.messages import Arrival, Place, SentFile, Written

_GUILD = "1290000000000000100"
_EPOCH_MS = 1_420_070_400_000
_PATIENCE_S = 3.0  # of Discord, for an interaction
_RELAY_PATIENCE_S = 15.0
_LONGEST_PAUSE_S = 30.0
_TOKEN_LIVES_S = 900.0
_NONCE_LIVES_S = 300.0
_MOST_PRESSES = 40
_FILES = "/attachments/"


def in_place_of(place: Place) -> Place:
    """A place of Discord, where another platform has that one: a direct channel, a server's channel, or a thread."""
    chat = place.chat.strip("-")
    thread = None if place.thread is None else f"12920000000{int(chat):04}{int(place.thread):04}"
    return Place(
        f"129100000000000{int(chat):04}", thread, f"8000000000000{int(place.sender):04}", place.is_group, place.bot
    )


@dataclass(slots=True)
class _Token:
    """What an interaction's token allows. *original*: the message that it has made, or that was pressed on."""

    place: Place
    is_press: bool
    opened_at_s: float
    original: dict[str, Any] | None = None


class Discord(Platform):
    """One application and its bot."""

    NAME = "discord"

    def __init__(self, world: Surroundings, *, word: str = "") -> None:
        super().__init__(world, word=word)
        self._application = f"129000000000000000{self.bot or 1}"
        self._me = {"id": self._application, "username": "aurora", "bot": True}
        self._key = SigningKey(f"the application of tests {self.bot or 1}".encode().ljust(32))
        self._relay_secret = f"whsec_eGW35rnSQddE0zDuw7Og/k+dNq912WK{self.bot or 1}"
        self._numbers = 0
        self._threads: dict[str, str] = {}  # to their channels
        self._messages: dict[str, list[dict[str, Any]]] = {}  # ours, by channel or thread
        self._nonces: dict[tuple[str, str], tuple[dict[str, Any], float]] = {}
        self._tokens: dict[str, _Token] = {}
        self._frames: deque[tuple[Written, asyncio.Future[None], str, bytes]] = deque()
        self._came: asyncio.Event | None = None

    def _own_settings(self) -> Mapping[str, str]:
        return {
            "PUBLIC_KEY": bytes(self._key.verify_key).hex(),
            "APPLICATION_ID": self._application,
            "BOT_TOKEN": f"a-bot-token.of.the-world{self.bot}",
            "API_BASE": f"http://{self.address[0]}/api/v10",
            "RELAY_SECRET": self._relay_secret,
        }

    def lasting(self) -> Sequence[Work]:
        return [self._relay()]

    # What Postroom calls.

    def _take(self, asked: Asked) -> Told:
        parts = urlsplit(asked.path)
        if parts.path.startswith(_FILES):
            return self._content(parts.path.removeprefix(_FILES))
        for method, path, take in self._routes():
            found = re.fullmatch(f"/api/v10{path}", parts.path) if method == asked.method else None
            if found is not None:
                body, uploads = forms.read(asked)
                body = dict(body["payload_json"], uploads=uploads) if uploads else body
                return take(body, *found.groups(), **{key: values[0] for key, values in parse_qs(parts.query).items()})
        self.wrong.append(f"Discord knows no call {asked.method} {parts.path}")
        return _refusal(404, 0, "404: Not Found")

    def _routes(self) -> Sequence[tuple[str, str, Callable[..., Told]]]:
        channel, number, token = r"/channels/(\d+)", r"/messages/(\d+)", rf"/webhooks/{self._application}/([\w-]+)"
        return (
            ("POST", f"{channel}/messages", self._post),
            ("GET", f"{channel}/messages", self._list),
            ("PATCH", f"{channel}{number}", self._edit),
            ("DELETE", f"{channel}{number}", self._nothing),
            ("PUT", rf"{channel}{number}/reactions/[^/]+/@me", self._nothing),
            ("POST", f"{channel}/typing", self._type),
            ("PATCH", f"{token}/messages/@original", self._edit_original),
            ("DELETE", f"{token}/messages/@original", self._delete_original),
            ("POST", token, self._follow_up),
            ("GET", "/users/@me", lambda _: _told(self._me)),
            ("GET", "/applications/@me", lambda _: _told({"id": self._application, "interactions_endpoint_url": None})),
        )

    def _busy(self) -> Told:
        wait_s, is_global = round(self._dice.uniform(0.3, 5), 3), self._dice.random() < 0.2
        told = _told({"message": "You are being rate limited.", "retry_after": wait_s, "global": is_global}, 429)
        told.headers = {"Retry-After": str(int(wait_s) + 1), "X-RateLimit-Scope": "global" if is_global else "user"}
        return told

    def _broken(self) -> Told:
        return _refusal(self._dice.choice([500, 502, 503]), 0, "Bad Gateway")

    def _nothing(self, _: dict[str, Any], *__: str) -> Told:
        return Told(204, b"")

    def _type(self, _: dict[str, Any], channel: str) -> Told:
        self._think(self._threads.get(channel, channel))
        return Told(204, b"")

    def _post(self, body: dict[str, Any], channel: str) -> Told:
        """A nonce that comes again within minutes makes no second message."""
        known, at_s = self._nonces.get((channel, body.get("nonce", "")), ({}, 0.0))
        if known and body.get("enforce_nonce") and self._world.now_s() - at_s < _NONCE_LIVES_S:
            return _told(known)
        made = self._make(channel, body)
        self._nonces[channel, body.get("nonce", "")] = made, self._world.now_s()
        return _told(made)

    def _make(self, channel: str, body: dict[str, Any]) -> dict[str, Any]:
        number = self._next_number()
        text = body.get("content", "")
        names = self._uploaded(body.get("uploads", []))
        made = {"id": str(number), "channel_id": channel, "author": self._me, "content": text}
        made["attachments"] = [{"id": str(at), "filename": name} for at, name in enumerate(names)]
        if "nonce" in body:
            made["nonce"] = body["nonce"]
        self._messages.setdefault(channel, []).append(made)
        keys = [key for row in body.get("components") or () for key in row["components"]]
        buttons = {key["label"]: key["custom_id"] for key in keys}
        chat = self._threads.get(channel, channel)
        thread = channel if channel in self._threads else None
        self.arrivals.append(Arrival(chat, thread, text, self._world.now_s(), number, buttons, names, self.bot))
        return made

    def _list(self, _: dict[str, Any], channel: str, *, after: str, limit: str) -> Told:
        """A nonce is shown for as long as Discord remembers it."""
        newer = [each for each in self._messages.get(channel, ()) if int(each["id"]) > int(after)]
        return _told(newer[: int(limit)])

    def _edit(self, body: dict[str, Any], channel: str, number: str) -> Told:
        found = next((each for each in self._messages.get(channel, ()) if each["id"] == number), None)
        if found is None:
            return _refusal(404, 10008, "Unknown Message")
        found["content"] = body.get("content", found["content"])
        return _told(found)

    def _open_token(self, name: str) -> _Token | Told:
        token = self._tokens.get(name)
        if token is None:
            return _refusal(404, 10015, "Unknown Webhook")
        if self._world.now_s() - token.opened_at_s > _TOKEN_LIVES_S:
            return _refusal(401, 50027, "Invalid Webhook Token")
        return token

    def _edit_original(self, body: dict[str, Any], name: str) -> Told:
        token = self._open_token(name)
        if isinstance(token, Told):
            return token
        place, text = token.place, body.get("content", "")
        if token.original is None:
            token.original = self._make(place.thread or place.chat, body)
        elif not token.is_press and token.original["content"] != text:
            self.wrong.append(f"{text!r} stands in the place of the answer {token.original['content']!r}")
        return _told(token.original)

    def _delete_original(self, _: dict[str, Any], name: str) -> Told:
        token = self._open_token(name)
        if isinstance(token, Told):
            return token
        if token.original is not None and not token.is_press:
            self.wrong.append(f"the answer {token.original['content']!r} is deleted")
        return Told(204, b"")

    def _follow_up(self, body: dict[str, Any], name: str) -> Told:
        token = self._open_token(name)
        if isinstance(token, Told):
            return token
        return _told(self._make(token.place.thread or token.place.chat, body))

    # What people do.

    def key_of(self, written: Written) -> str:
        return str(written.number) if written.is_command else f"MESSAGE_CREATE:{written.number}"

    def _next_number(self) -> int:
        self._numbers += 1
        at_ms = BEGAN_MS + int(self._world.now_s() * 1000)
        return (at_ms - _EPOCH_MS << 22) + self._numbers % (1 << 22)

    def send(self, place: Place, text: str, files: Sequence[SentFile]) -> list[Written]:
        """One message has all of them."""
        return [self._sent(place, text, files, "")]

    def delete(self, written: Written) -> Written:
        told = replace(written, event=self._next_number(), is_deletion=True, accepted=False, statuses=[])
        self.deleted[written.key] = told
        return told

    async def bring(self, written: Written, dice: random.Random) -> None:
        if written.place.thread is not None:
            self._threads[written.place.thread] = written.place.chat
        if written.presses:
            for _ in range(_MOST_PRESSES):
                await self._interact(written, {"type": 3, **self._pressed(written)})
                if written.accepted:
                    return
                await asyncio.sleep(dice.uniform(2, 20))
        elif written.is_command:
            options = [{"name": "prompt", "type": 3, "value": written.text}]
            data = {"id": "1290000000000001319", "name": "ask", "type": 1, "options": options}
            await self._interact(written, {"type": 2, "data": data})
        else:
            await self._have_relayed(written, dice)

    async def _have_relayed(self, written: Written, dice: random.Random) -> None:
        frame, taken = self._frame(written), asyncio.get_running_loop().create_future()
        for _ in range(2 if dice.random() < 0.1 else 1):  # twice: a session was resumed
            self._frames.append((written, taken, f"gateway:world:{frame['s']}", json.dumps(frame).encode()))
        assert self._came is not None
        self._came.set()
        await taken

    async def _relay(self) -> None:
        """Without an end."""
        self._came = asyncio.Event()
        while True:
            while self._frames:
                written, taken, name, body = self._frames[0]
                pause_s = 0.5
                while not 200 <= (status := await self._post_frame(name, body)) < 300:
                    written.statuses.append(status)
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                written.statuses.append(status)
                if not written.accepted:
                    written.accepted = True
                    written.answered_s = self._world.now_s()
                    taken.set_result(None)
                self._frames.popleft()
            self._came.clear()
            await self._came.wait()

    async def _post_frame(self, name: str, body: bytes) -> int:
        """The status; 0: no answer in time. The relay runs on the same machine, and has its clock."""
        headers = standard_webhooks.sign(self._relay_secret, name, body, now_ms=self._world.wall_ms())
        try:
            async with asyncio.timeout(_RELAY_PATIENCE_S):
                return (
                    await self._world.ask("ingest", "POST", f"/webhooks/{self.account}", _TYPE | headers, body)
                ).status
        except (Reset, TimeoutError):
            return 0

    async def _interact(self, written: Written, particular: dict[str, Any]) -> None:
        """Discord brings it once. What is no "thinking", or comes too late, is no promise."""
        token = f"token-{self._next_number()}"
        body = json.dumps(self._interaction(written, token) | particular).encode()
        stamp = str((BEGAN_MS + int(self._world.now_s() * 1000)) // 1000)
        signed = {
            "x-signature-timestamp": stamp,
            "x-signature-ed25519": self._key.sign(stamp.encode() + body).signature.hex(),
        }
        try:
            async with asyncio.timeout(_PATIENCE_S):
                answer = await self._world.ask("ingest", "POST", f"/webhooks/{self.account}", _TYPE | signed, body)
        except (Reset, TimeoutError):
            written.statuses.append(0)
            return
        written.statuses.append(answer.status)
        if answer.status == 200 and json.loads(answer.body)["type"] in (5, 6):
            written.accepted = True
            original = self._find(written) if written.presses else None
            self._tokens[token] = _Token(written.place, bool(written.presses), self._world.now_s(), original)

    def _find(self, written: Written) -> dict[str, Any]:
        found = self._messages[written.place.thread or written.place.chat]
        return next(each for each in found if each["id"] == str(written.number))

    def _interaction(self, written: Written, token: str) -> dict[str, Any]:
        place = written.place
        user = {"id": place.sender, "username": f"p{place.sender}", "global_name": f"P{place.sender}"}
        channel: dict[str, Any] = {"id": place.chat, "type": 0 if place.is_group else 1}
        if place.thread is not None:
            channel = {"id": place.thread, "type": 11, "parent_id": place.chat}
        where: dict[str, Any] = {"user": user, "context": 1, "authorizing_integration_owners": {"0": "0"}}
        if place.is_group:
            owners = {"0": _GUILD}
            where = {"member": {"user": user}, "guild_id": _GUILD, "context": 0}
            where["authorizing_integration_owners"] = owners
        number = str(self._next_number() if written.presses else written.number)
        named = {"version": 1, "id": number, "application_id": self._application, "token": token}
        return named | {"channel": channel, "channel_id": channel["id"]} | where

    def _pressed(self, written: Written) -> dict[str, Any]:
        message = {"id": str(written.number), "author": self._me, "content": written.text}
        return {"message": message, "data": {"component_type": 2, "custom_id": written.presses, "id": 2}}

    def _attachment(self, file: SentFile) -> dict[str, Any]:
        url = f"http://{self.address[0]}{_FILES}{file.name}"
        named = {"id": "1", "filename": file.name, "content_type": "application/octet-stream"}
        return named | {"url": url, "size": len(file.content)}

    def _frame(self, written: Written) -> dict[str, Any]:
        place = written.place
        if written.is_deletion:
            where = {"guild_id": _GUILD} if place.is_group else {}
            gone = {"id": str(written.number), "channel_id": place.thread or place.chat, **where}
            told = {"op": 0, "s": written.event, "t": "MESSAGE_DELETE", "d": gone}
            return told if place.thread is None else told | {"x_parent_id": place.chat}
        data: dict[str, Any] = {
            "id": str(written.number),
            "type": 0,
            "channel_id": place.thread or place.chat,
            "content": f"<@{self._application}> {written.text}" if place.is_group else written.text,
            "author": {"id": place.sender, "username": f"p{place.sender}", "global_name": f"P{place.sender}"},
            "mentions": [self._me] if place.is_group else [],
            "attachments": [self._attachment(file) for file in written.files],
            "channel_type": (11 if place.thread else 0) if place.is_group else 1,
        }
        if place.is_group:
            data |= {"guild_id": _GUILD, "member": {"nick": None}}
        if written.is_edit:
            at_s = BEGAN_MS / 1000 + self._world.now_s()
            data["edited_timestamp"] = datetime.fromtimestamp(at_s, UTC).isoformat()
        frame = {"op": 0, "s": written.event, "t": "MESSAGE_UPDATE" if written.is_edit else "MESSAGE_CREATE", "d": data}
        return frame if place.thread is None else frame | {"x_parent_id": place.chat}


_TYPE = {"content-type": "application/json"}


def _told(found: object, status: int = 200) -> Told:
    return Told(status, json.dumps(found).encode())


def _refusal(status: int, code: int, why: str) -> Told:
    return _told({"message": why, "code": code}, status)
