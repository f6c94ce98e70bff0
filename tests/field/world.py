"""All that is around a system: the platforms with their people, and the model. No kill of the system reaches it."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web

from emulator.base.door import Door
from emulator.base.fakes import PLATFORMS
from emulator.platforms import Platforms, PlatformsConfig
from tests.agents.model_api import ModelApi
from tests.e2e.conftest import until
from tests.emulator.platforms.conftest import bound
from tests.field.http import ask, call
from tests.field.systems import Surroundings, System
from tests.shared.turns.gateway.model_host import hosting

T = TypeVar("T")

MODEL_KEY = "sk-the-key-of-the-operator"
PATIENCE_S = 180.0  # a busy machine is no fault of the system's
SOONER = 0.05  # what is left of a platform's waits before it delivers again


class HoldingModel(ModelApi):
    """The scripted model (``tests/agents/model_script.py``), which a test can let wait.

    Attributes:
        arrived: the bodies of all requests, also of those that wait.
        held: the requests with any of these texts wait.
    """

    def __init__(self) -> None:
        super().__init__(MODEL_KEY)
        self.arrived: list[str] = []
        self.held: set[str] = set()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = (await request.read()).decode()
        if request.method == "POST":
            self.arrived.append(body)
        while any(text in body for text in self.held):  # noqa: ASYNC110 - another thread lets it go
            await asyncio.sleep(0.02)
        return await super().answer(request)

    def requests(self, text: str) -> list[str]:
        """The bodies with *text*, so far."""
        return [each for each in list(self.arrived) if text in each]

    def is_asked(self, text: str) -> None:
        """Wait for a request with *text*."""
        until(f"a request of the model with {text!r}", lambda: self.requests(text))

    @contextlib.contextmanager
    def hold(self, text: str) -> Iterator[None]:
        """Meanwhile the requests with *text* wait."""
        self.held.add(text)
        try:
            yield
        finally:
            self.held.discard(text)


@dataclass(frozen=True, slots=True)
class Said:
    """What a person wrote: its ids at the platform."""

    chat: str
    message: str
    update: int


class Person:
    """Somebody on Telegram, whose direct chat with the bot has the same number."""

    def __init__(self, world: "World", id_: str) -> None:
        self._world = world
        self.id = id_

    def says(self, text: str, chat: str | None = None, thread: int | None = None) -> Said:
        """Write to the bot, or in *chat*."""
        body = {"text": text, "chat": chat, "thread": thread}
        done = self._world.control("POST", f"/telegram/users/{self.id}/message", body)
        return Said(str(done["chat"]), str(done["message_id"]), done["update_id"])

    def heard(self) -> list[str]:
        """What the bot has written in the direct chat."""
        return self._world.heard(self.id)

    def hears(self, text: str) -> str:
        """Wait for a message of the bot with *text* in the direct chat; the whole message."""
        return self._world.hears(self.id, text)


class World:
    """The platforms, the model, and the system in the middle."""

    def __init__(self, system: System, folder: Path) -> None:
        self.system = system
        self.model = HoldingModel()
        self._people = itertools.count(6100000001)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="the world")
        self._thread.start()
        self._open = contextlib.AsyncExitStack()
        self.around = self._run(self._begin(folder))

    def begin(self) -> None:
        """Start the system, tell the platforms where it listens, and wait for its first answer."""
        self.system.start(self.around)
        for platform in self.system.webhooks:
            self._run(self._platforms.register_one(platform))
        self.person().says("is anybody there")
        self.settle()

    async def _begin(self, folder: Path) -> Surroundings:
        webhooks = self.system.webhooks
        host = await self._open.enter_async_context(hosting(self.model.answer))
        config = PlatformsConfig(
            state=folder,
            webhook_urls={name: webhooks.get(name, "") for name in PLATFORMS},
            door=Door(None, "no token"),
            retry_scale=SOONER,
            deadline_ms=10_000,  # a busy machine is no fault of the system's
            limits=False,
        )
        self._platforms = Platforms(config)
        await self._platforms.start(bound())
        self._open.push_async_callback(self._platforms.stop)
        known = self._platforms.environment()
        return Surroundings(
            telegram=known["TELEGRAM_API_BASE"],
            telegram_token=known["TELEGRAM_BOT_TOKEN"],
            telegram_secret=known["TELEGRAM_WEBHOOK_SECRET"],
            telegram_username=known["TELEGRAM_BOT_USERNAME"],
            discord=known["DISCORD_API_BASE"],
            discord_application=known["DISCORD_APPLICATION_ID"],
            discord_token=known["DISCORD_BOT_TOKEN"],
            discord_public_key=known["DISCORD_PUBLIC_KEY"],
            model=host.url,
            model_key=MODEL_KEY,
        )

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def close(self) -> None:
        """End everything."""
        self.system.close()
        self._run(self._open.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    # -- people and platforms ----------------------------------------------------------------------------------------

    def control(self, method: str, path: str, body: Any = None) -> Any:
        """A call of the control of the fake platforms (``emulator/platforms/control.py``)."""
        return ask(method, f"{self._platforms.url}/control{path}", body)

    def person(self) -> Person:
        """Somebody new on Telegram."""
        return Person(self, str(next(self._people)))

    def group(self, *people: Person, is_super: bool = False) -> str:
        """A new group on Telegram with *people* and the bot."""
        body = {"title": "A group", "members": [each.id for each in people], "super": is_super}
        return str(self.control("POST", "/telegram/chats", body)["chat"])

    def channel(self) -> tuple[str, str]:
        """A new person of Discord, and a channel with that person and the bot."""
        person = str(self.control("POST", "/discord/people", {"name": "Ana"})["id"])
        return person, str(self.control("POST", "/discord/chats", {"title": "a-channel", "members": [person]})["chat"])

    def command(self, person: str, channel: str, text: str) -> dict[str, Any]:
        """A person of Discord uses ``/ask``; the interaction, after its first answer."""
        found: dict[str, Any] = self.control(
            "POST", f"/discord/users/{person}/ask", {"prompt": text, "channel": channel}
        )
        return found

    def messages(self, chat: str, platform: str = "telegram") -> list[dict[str, Any]]:
        """The messages of the bot in a chat, the oldest first, but for the mark that an answer is awaited."""
        status, _ = call("GET", url := f"{self._platforms.url}/control/{platform}/chats/{chat}")
        found = ask("GET", url)["messages"] if status == 200 else []
        return [each for each in found if each["author"]["is_bot"] and each["state"] != "thinking"]

    def heard(self, chat: str, platform: str = "telegram") -> list[str]:
        """Their texts."""
        return [each["text"] for each in self.messages(chat, platform)]

    def hears(self, chat: str, text: str, platform: str = "telegram") -> str:
        """Wait for a message of the bot with *text*; the whole message."""
        return until(
            f"{text!r} in chat {chat}, where there was {self.heard(chat, platform)}",
            lambda: next((each for each in self.heard(chat, platform) if text in each), None),
        )

    def calls(self, chat: str, platform: str = "telegram") -> list[dict[str, Any]]:
        """The calls of the bot about a chat, also those that failed."""
        found: list[dict[str, Any]] = self.control("GET", f"/{platform}/calls?chat={chat}")["calls"]
        return found

    def is_refused(self, chat: str, platform: str = "telegram") -> None:
        """Wait for a call of the bot about a chat that failed."""
        until(
            f"a refusal in chat {chat}", lambda: [each for each in self.calls(chat, platform) if each["status"] >= 400]
        )

    @contextlib.contextmanager
    def fault(self, kind: str, platform: str = "telegram", **fault: Any) -> Iterator[None]:
        """Meanwhile calls of the bot fail, as ``emulator fault add --help`` explains; as often as *times*, or each."""
        made = self.control("POST", f"/{platform}/faults", {"kind": kind, "times": 10**6, **fault})["fault"]
        try:
            yield
        finally:
            self.control("DELETE", f"/{platform}/faults?id={made['id']}")

    def redeliver(self, said: Said) -> None:
        """Telegram delivers an update once more."""
        self.control("POST", f"/telegram/updates/{said.update}/redeliver", {})

    def post_update(self, update: dict[str, Any], secret: str | None = None) -> int:
        """Post an update to the webhook as Telegram does; the status."""
        secret = self.around.telegram_secret if secret is None else secret
        return call("POST", self.system.webhooks["telegram"], update, {"X-Telegram-Bot-Api-Secret-Token": secret})[0]

    def delivered(self) -> None:
        """Wait until the system has accepted all that people wrote."""
        until(
            "everything to be delivered", lambda: self.control("GET", "/telegram/webhook")["pending"] == 0, PATIENCE_S
        )

    def settle(self) -> None:
        """Wait until the system has accepted everything, and has nothing more to do."""
        self.delivered()
        until("the system to be idle", self.system.is_idle, PATIENCE_S)
