"""What a system must offer to be tried here: an adapter of a page, which speaks HTTP."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The addresses that a system calls, and the secrets with which it does.

    Attributes:
        telegram: what stands before ``/bot<token>/<method>``.
        telegram_secret: stands in the header of every update that Telegram posts.
        discord: what stands before ``/webhooks`` and ``/channels``.
        model: speaks Anthropic's messages (``/v1/messages``) and OpenAI's forms (``/v1/chat/completions``).
    """

    telegram: str
    telegram_token: str
    telegram_secret: str
    telegram_username: str
    discord: str
    discord_application: str
    discord_token: str
    discord_public_key: str
    model: str
    model_key: str

    @property
    def secrets(self) -> Sequence[str]:
        """What nobody may read who is not its owner."""
        return self.telegram_token, self.telegram_secret, self.discord_token, self.model_key


class System(Protocol):
    """A system under trial, with one bot and one agent, which answers everybody who writes to the bot.

    Attributes:
        offers: what it can do at all; a scenario that needs more does not apply. ``webhooks``: platforms post to it.
            ``discord``, ``groups``, ``topics``: it is there. ``tools``: its agent can speak in the middle of a turn.
            ``agents``: there is a second agent. ``limits``: it holds back who writes too much.
        webhooks: the address of each platform's events; a platform is missing where the system asks it for news.
        second_agent: the beginning of a text for the second agent.
    """

    offers: frozenset[str]
    webhooks: Mapping[str, str]
    second_agent: str

    def start(self, around: Surroundings) -> None:
        """Start its processes, with all that it kept; return when it takes messages."""

    def stop(self) -> None:
        """End it as its operator does."""

    def kill(self) -> None:
        """End all of its processes at once, by -9."""

    def close(self) -> None:
        """End whatever is left, also where a test failed."""

    def is_idle(self) -> bool:
        """Whether nothing runs, and nothing waits that is due."""

    def speak(self, text: str) -> str:
        """What a model is told (``tests/agents/model_script.py``) to say *text* in the middle of its turn."""

    def written(self) -> Iterable[Path]:
        """All files that it has written."""
