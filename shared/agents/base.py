"""The contract between a turn and the provider that runs it. A provider is one file and one line in ``registry``."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from shared.agents import memory
from shared.agents.access import Doors, Permissions, Toolbox
from shared.agents.memory import MemoryFile, RememberedLine
from shared.agents.programs.containment import LeashPolicy
from shared.agents.programs.limits import DEFAULT_LIMITS, Limits
from shared.agents.skills import Skill
from shared.agents.tool_servers import ToolServer
from shared.core.failures import FailureCode

if TYPE_CHECKING:  # it starts processes, and functions without agents import this module too
    from shared.agents.programs.sandboxes import Sandboxes


@dataclass(frozen=True, slots=True)
class NamedFile:
    """An attachment of a message, as the prompt names it.

    Attributes:
        kind: as the channel calls it, such as ``photo`` or ``location``.
        name: safe to use as a file's name; empty where it is no file.
        path: below the agent's folder; None where the file is not there.
        why_not: why it is not there.
        facts: of an attachment that is no file.
        has_words: the words that are spoken in it stand in the text of its message.
        why_no_words: why they do not, although something here makes text of sound.
    """

    kind: str
    name: str
    path: str | None = None
    media_type: str | None = None
    size: int | None = None
    why_not: str | None = None
    facts: tuple[tuple[str, str], ...] = ()
    has_words: bool = False
    why_no_words: str | None = None


@dataclass(frozen=True, slots=True)
class TurnMessage:
    """One message of the batch as an agent may see it, without routing fields.

    Attributes:
        from_agent: the agent that sent it, or None.
        about: what the message does to an earlier one: ``edits``, ``deletes`` or ``reacts_to``, and that one's id.
    """

    message_id: str
    kind: str
    sender: str
    text: str
    at_ms: int
    reply_to: str | None
    is_context: bool
    from_agent: str | None = None
    files: tuple[NamedFile, ...] = ()
    about: tuple[str, str] | None = None


class Attachment(msgspec.Struct, frozen=True):
    """A file that came with a message, in the inbox of the session.

    Attributes:
        path: of the file; it is in the agent's folder.
        media_type: as the file's first bytes say, such as ``image/png``; ``application/octet-stream`` where they don't.
        name: its name, safe to show and to use as a file's name.
        message_id: of its message.
    """

    path: Path
    media_type: str
    name: str
    message_id: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of an agent.

    Attributes:
        config: what only this provider reads, from the agent's row.
        folder: the agent's working directory; exists.
        continuation: from the last ``Init`` of the session, or None for a fresh start.
        prompt: the whole batch as text, escaped; see ``prompt``.
        messages: the same batch, structured.
        attempt: of the oldest message, from 1.
        token: names the turn; see ``leftover_processes``.
        limits: of a program that the provider starts.
        leash: the operator's policy; see ``programs.containment``.
        private: what no program may see, whatever the config says.
        sandboxes: of dispatch, for programs that end with the turn; None in a test.
        doors: the way of the turn's program to models and tools; None in a test.
        tools: the same tools, for a provider that runs in this process; None in a test.
        permissions: whom the turn's program asks before it does something; None in a test: nothing is allowed.
        timezone: of the agent.
        attachments: the files of the messages, in their order; the prompt names them.
        memory_file: what its operator wants it to know.
        remembered: what it wrote down itself, in turns whose words this one may have.
        is_with_strangers: people whom the agent does not know have written in its session.
        skills: of the agent.
        tool_servers: of the agent, which its program starts.
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
    limits: Limits = DEFAULT_LIMITS
    leash: LeashPolicy = "auto"
    private: tuple[Path, ...] = ()
    sandboxes: "Sandboxes | None" = None
    doors: Doors | None = None
    tools: Toolbox | None = None
    permissions: Permissions | None = None
    timezone: str = "UTC"
    attachments: tuple[Attachment, ...] = ()
    memory_file: MemoryFile = memory.NOTHING
    remembered: tuple[RememberedLine, ...] = ()
    is_with_strangers: bool = False
    skills: tuple[Skill, ...] = ()
    tool_servers: tuple[ToolServer, ...] = ()

    @property
    def place(self) -> str:
        """The name of this agent's session: its turns may use one sandbox, one after another."""
        return f"{self.agent} {self.session}"


SESSIONS = "sessions"


def session_folder(session: str) -> str:
    """The folder, below the agent's, of this session: a leash hides those of the others."""
    return f"{SESSIONS}/{session}"


def outbox(session: str) -> str:
    """The folder, below the agent's, of files that the agent sends."""
    return f"{session_folder(session)}/outbox"


class Init(msgspec.Struct, frozen=True):
    """The provider has begun; the next turn of the session continues from *continuation*."""

    continuation: str


class Progress(msgspec.Struct, frozen=True):
    """The provider is still working; a note for people who watch the turn."""

    note: str


class Acted(msgspec.Struct, frozen=True):
    """The agent called a tool of this name: from now on no other model begins the turn anew."""

    tool: str


class Text(msgspec.Struct, frozen=True):
    """An answer. *answers* is the ``message_id`` of the message it answers; None: the first one that asked."""

    text: str
    answers: str | None = None


class Result(msgspec.Struct, frozen=True):
    """The turn is over; *text* is the final answer, unless a ``Text`` gave it already."""

    text: str | None = None


class Failed(msgspec.Struct, frozen=True):
    """The turn failed.

    Attributes:
        reason: for the operator; no secrets.
        retryable: whether another attempt may help.
        wait_ms: the wait that the model asked for; it costs no attempt.
        code: the kind of failure, as the message's row keeps it; ``core.failures`` says what follows each.
        until_ms: the instant (ms UTC) before which another attempt is of no use; it costs no attempt.
    """

    reason: str
    retryable: bool = True
    wait_ms: int | None = None
    code: FailureCode = "error"
    until_ms: int | None = None


class Used(msgspec.Struct, frozen=True):
    """Tokens of *model* that the turn took, where the gateway could not count them."""

    model: str
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


ProviderEvent = Init | Progress | Acted | Used | Text | Result | Failed


class Provider(Protocol):
    """Runs turns. Closing the generator early ends the run and leaves no process behind."""

    def check(self, config: Mapping[str, Any]) -> None:
        """Check an agent's ``config`` when it is saved, before the first message comes.

        Raises:
            ConfigInvalid: says which entry is wrong, and why.
        """

    def run(self, turn: Turn) -> AsyncGenerator[ProviderEvent, None]:
        """Yield what happens, ending with ``Result`` or ``Failed``; an exception counts as a retryable failure."""


@runtime_checkable
class ListeningProvider(Provider, Protocol):
    """A provider whose turns can be told something while they run. Both methods name a turn by ``Turn.token``."""

    def hears(self, turn: str) -> bool:
        """Whether the turn runs here and can be told something now."""

    async def steer(self, turn: str, text: str) -> bool:
        """Tell the turn *text* too; whether the agent took it. False at once when the turn's generator is closed."""
