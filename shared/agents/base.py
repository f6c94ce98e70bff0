"""The contract between a turn and the provider that runs it. One provider is one file and one line in ``registry``."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class TurnMessage:
    """One message of the batch, as an agent may see it: no routing fields. *from_agent*: an agent wrote it."""

    message_id: str
    kind: str
    sender: str
    text: str
    at_ms: int
    reply_to: str | None
    is_context: bool
    from_agent: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of an agent.

    Attributes:
        config: what only this provider reads, from the agent's row.
        folder: the agent's working directory; exists.
        continuation: what the provider gave in its last ``Init``, or None for a fresh start.
        prompt: the whole batch as text, escaped; see ``prompt``.
        messages: the same batch, structured.
        attempt: 1 for the first try of the oldest message.
        token: the turn's own mark; see ``remains``.
    """

    agent: str
    model: str | None
    instructions: str
    config: Mapping[str, Any]
    folder: Path
    session: str
    continuation: str | None
    prompt: str
    messages: tuple[TurnMessage, ...]
    attempt: int
    token: str = ""


@dataclass(frozen=True, slots=True)
class Init:
    """The provider has begun; *continuation* lets the next turn of the session go on from here."""

    continuation: str


@dataclass(frozen=True, slots=True)
class Progress:
    """Still at work; a note for whoever watches."""

    note: str


@dataclass(frozen=True, slots=True)
class Text:
    """Something to say. *answers* is the ``message_id`` it answers; None: the first that asked."""

    text: str
    answers: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The turn is over; *text* is the final answer where it was not said as ``Text`` already."""

    text: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The turn failed.

    Attributes:
        reason: for the operator; no secrets.
        retryable: whether another try may help.
        wait_ms: how long the model's side asked to wait; such a wait costs no attempt.
    """

    reason: str
    retryable: bool = True
    wait_ms: int | None = None


ProviderEvent = Init | Progress | Text | Result | Failed


class Provider(Protocol):
    """Runs turns. Closing the generator early ends the run, and leaves no process behind."""

    def check(self, config: Mapping[str, Any]) -> None:
        """Look at an agent's ``config`` when it is saved, not when the first message comes.

        Raises:
            ConfigInvalid: says which entry is wrong, and how.
        """

    def run(self, turn: Turn) -> AsyncGenerator[ProviderEvent, None]:
        """Yield what happens, ending with ``Result`` or ``Failed``; an exception counts as a retryable failure."""
