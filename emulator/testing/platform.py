"""A fake platform in a test: people write to the bot, and the test waits for what it answers."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from emulator.base.errors import EmulatorError
from emulator.base.fakes import place_of
from emulator.base.state import StateFolder
from emulator.cli import client
from emulator.testing.waiting import LIMIT_S, wait_until


@dataclass(frozen=True, slots=True)
class SaidMessage:
    """What a person wrote in a *chat*; *message* is its id there, and *after* the number of the message before it."""

    platform: "FakePlatform"
    chat: str
    message: str
    after: int

    def answers(self) -> list[str]:
        """What the bot has said in the chat since then, the oldest first."""
        return [
            each["text"]
            for each in self.platform.messages(self.chat, after=self.after)
            if each["author"]["is_bot"] and each["state"] != "thinking"
        ]

    def answer(self, *, limit_s: float = LIMIT_S) -> str:
        """The first thing that the bot says.

        Raises:
            AssertionError: it said nothing within the limit; with the reason, as ``emulator why`` has it.
        """
        with suppress(AssertionError):
            return wait_until(self.answers, limit_s=limit_s)[0]
        raise AssertionError(f"the bot said nothing within {limit_s:g} s: {self.why() or 'no reason is known'}")

    def why(self) -> str | None:
        """Why there is no answer; None: nothing is known of it."""
        api = client.find(self.platform.state.path, None)
        place = place_of(self.platform.name, self.chat)
        with suppress(EmulatorError):
            found = api.get("why", ref=self.message, channel=self.platform.name, limit=1, **place)
            return str(found[0]["reason"]) if found else None
        return None


class FakePlatform:
    """A fake platform of an emulator, with its people Ana and Ben and one bot."""

    def __init__(self, name: str, state: StateFolder) -> None:
        self.name = name
        self.state = state

    def say(self, text: str, *, person: str = "Ana", chat: str | None = None) -> SaidMessage:
        """A person writes to the bot. On Discord the text is the prompt of ``/ask``.

        Args:
            person: by name or id.
            chat: by title or id; None: the direct chat with the bot.
        """
        who = self._person(person)
        place, after = self._chat(who, chat)
        done = self._ask("POST", f"/chat/{self.name}/say", {"person": who, "text": text, "chat": place})
        return SaidMessage(self, place, str(done.get("message_id") or done.get("message") or done.get("id")), after)

    def messages(self, chat: str, *, after: int | None = None) -> list[dict[str, Any]]:
        """The messages of a chat, by its id, the oldest first: ``text``, ``author``, ``created_ms``, ``keyboard`` …

        Args:
            after: all with a larger ``seq``; None: the last 500.
        """
        query = "" if after is None else f"?after={after}"
        found: list[dict[str, Any]] = self._ask("GET", f"/control/{self.name}/chats/{chat}{query}")["messages"]
        return found

    def press(self, chat: str, message: str, data: str, *, person: str = "Ana") -> None:
        """A person presses a button; *data* is its ``callback_data`` in the ``keyboard`` of the message."""
        self._ask(
            "POST",
            f"/control/{self.name}/chats/{chat}/messages/{message}/press",
            {"person": self._person(person), "data": data},
        )

    def calls(self, method: str | None = None) -> list[dict[str, Any]]:
        """The bot's calls of the platform, the oldest first: ``method``, ``params``, ``status``, ``answer`` …"""
        query = "" if method is None else f"?method={method}"
        found: list[dict[str, Any]] = self._ask("GET", f"/control/{self.name}/calls{query}")["calls"]
        return found

    def _person(self, wanted: str) -> str:
        people = self._ask("GET", f"/control/{self.name}/people")["people"]
        for each in people:
            if wanted in (each["name"], each["id"], each["username"]):
                return str(each["id"])
        raise LookupError(f"there is no person {wanted!r} on {self.name}: {', '.join(each['name'] for each in people)}")

    def _chat(self, person: str, wanted: str | None) -> tuple[str, int]:
        """The chat, and the number of the newest message of all chats."""
        found = self._ask("GET", f"/control/{self.name}/chats")
        own = [each for each in found["chats"] if person in each["members"]]
        for each in own:
            is_direct = each["kind"] in ("private", "dm")
            if is_direct if wanted is None else wanted in (each["title"], each["id"]):
                return str(each["id"]), int(found["newest"])
        titles = ", ".join(each["title"] for each in own)
        raise LookupError(f"that person is in no chat {wanted or 'with the bot alone'!r} on {self.name}: {titles}")

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return client.ask_platforms(self.state.path, method, path, body)
