"""What a fake platform has for the emulator: its API, its people, and its part of the control API and the chat page.

``emulator.base.fakes`` lists the fakes; each is a folder here with a module that is a ``FakeModule``.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from aiohttp import web

from emulator.base.fakes import FAKES
from emulator.base.faults import Faults
from emulator.platforms.bus import EventBus
from emulator.platforms.config import PlatformsConfig
from emulator.platforms.further_accounts import FurtherAccounts
from emulator.platforms.store import FakeChat, FakePerson, PlatformStore


class FakePeople(Protocol):
    """What people can do on a platform. Each answers with facts of it as JSON, and raises ActionRefused."""

    def add_newcomer(self, name: str) -> FakePerson:
        """A new person called *name*."""

    def create_chat(self, title: str, members: Sequence[str], *, is_super: bool) -> dict[str, Any]:
        """A group with *members* and the bot; *is_super*: of the larger kind, where there is one."""

    def join(self, chat_id: str, person_id: str) -> dict[str, Any]:
        """*person_id* joins a group."""

    def block(self, chat_id: str, *, is_blocked: bool) -> dict[str, Any]:
        """The person blocks the bot, or a group removes it; or that is undone."""

    def edit(self, chat_id: str, message_id: str, text: str, *, person_id: str) -> dict[str, Any]:
        """*person_id* edits their message."""

    def delete(self, chat_id: str, message_id: str, *, person_id: str) -> dict[str, Any]:
        """*person_id* deletes their message."""

    def react(self, chat_id: str, message_id: str, person_id: str, emoji: str, *, is_removed: bool) -> dict[str, Any]:
        """*person_id* reacts to a message, or takes the reaction back."""


class PlatformFake(Protocol):
    """One fake platform, for one account."""

    can: tuple[str, ...]
    """What the chat page offers besides writing and pressing buttons, and how it shows what is said.

    ``files reply edit delete react``; ``clear``: to delete what the bot said in a direct chat; ``ways``: a file as a
    photo or a document; ``topics`` of groups, ``admins``; ``threads`` of channels; ``commands`` with options, and their
    ``menus``; ``names``: an author above each message; ``entities``: marked up by those, and not by Markdown.
    """

    mention: str
    """What people write to address the bot in a group; empty where it gets everything."""

    faults: Faults
    """Those of its API."""

    @property
    def people(self) -> FakePeople:
        """Plays the people."""

    def environment(self) -> dict[str, str]:
        """The settings with which the functions reach and verify it. Call it after ``begin``."""

    def begin(self, url: str) -> None:
        """Start what works between requests; all fakes are served below *url*."""

    async def stop(self) -> None:
        """End that work."""

    def routes(self) -> list[web.AbstractRouteDef]:
        """The platform's own API below ``/NAME``, and what the control API has of it alone below ``/control/NAME``."""

    def page_routes(self, base: str) -> list[web.AbstractRouteDef]:
        """What the chat page has of it alone, below *base*."""

    async def register(self) -> None:
        """Register the address of our function, as an operator does. Raises ConfigInvalid if that is refused."""

    async def offer_commands(self) -> None:
        """Register Postroom's commands where there are none, as ``emulator channel`` does at the real platform."""

    def say(self, body: dict[str, Any]) -> dict[str, Any]:
        """A person writes, or sends ``files``; *body* as the chat page sends it."""

    async def press(self, chat_id: str, message_id: str, person_id: str, data: str, *, waits: bool) -> dict[str, Any]:
        """*person_id* presses a button. *waits*: answers after the bot's first answer, where the platform has one."""

    def deliveries(self, chat: str | None) -> list[dict[str, Any]]:
        """What it sent to the bot, of all chats or one, oldest first.

        Each has ``message kind attempts status error took_ms created_ms``, as ``state`` ``pending``, ``delivered`` or
        ``dropped``, and as ``update_id`` what ``send_again`` takes.
        """

    def send_again(self, ref: str) -> bool:
        """Send a webhook again; False if it is on its way still, or forgotten."""


class FakeModule(Protocol):
    """The module of a fake."""

    def fake(
        self, config: PlatformsConfig, store: PlatformStore, bus: EventBus, further: FurtherAccounts
    ) -> PlatformFake:
        """The fake of one account."""

    def add_people(self, store: PlatformStore) -> None:
        """Add the first people and chats; rows that exist stay unchanged."""

    def bot_id(self, store: PlatformStore) -> str:
        """The author of what the bot says."""

    def chat_then(self, platform_id: str, title: str, *, is_group: bool) -> FakeChat:
        """A chat of the past; its members join as they speak."""


def module_of(platform: str) -> FakeModule:
    """The module of the fake of *platform*, one of ``PLATFORMS``."""
    return cast(FakeModule, import_module(FAKES[platform].module))
