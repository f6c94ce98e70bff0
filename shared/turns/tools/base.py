"""What a tool is, and what it gets from the turn that calls it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import apsw
import msgspec
from pydantic import BaseModel, ConfigDict

from shared.channels.base import OutgoingFile
from shared.core.errors import WrongState
from shared.core.policy import AccessPolicy
from shared.db.queue import responses
from shared.db.queue.claims import Claim
from shared.db.queue.message_row import Message
from shared.db.queue.responses import NewResponse
from shared.db.queue.sessions import Session
from shared.db.roster.agents import Agent
from shared.queue import spoken
from shared.queue.teamwork.chains import MailLimits
from shared.turns.tools.outbox_files import FileTaker

Permission = Literal["session", "approval"]
"""``session``: the tool does what this session may do anyway; ``approval``: an owner or admin decides first."""


class Arguments(BaseModel):
    """The arguments of a tool. Each has a limit, and unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", defer_build=True, str_max_length=100_000)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call, in the transaction of its effects.

    Attributes:
        claim: of the turn; None: an operator calls the tool as the agent, outside any turn.
        asked: the message that the turn answers; None: there is none.
        key: of the call in its turn.
        folder: of the agent.
        file: the copy of the file that the call hands over, see ``Tool.hands_over``, or the sound that was made for it,
            see ``Tool.speaks``; None: there is none.
        why_no_sound: of a call that speaks without a *file*: why there is no sound, as a part of a sentence.
    """

    conn: apsw.Connection
    agent: Agent
    session: Session
    claim: Claim | None
    asked: Message | None
    key: str
    policy: AccessPolicy
    limits: MailLimits
    folder: Path
    now_ms: int
    file: OutgoingFile | None = None
    why_no_sound: str = ""

    def say(self, new: NewResponse) -> int:
        """Store what the agent says to people; the row of the response.

        Raises:
            ClaimLost: the turn is over.
        """
        if self.claim is None:
            return responses.enqueue(self.conn, new, now_ms=self.now_ms)
        return spoken.say(self.conn, self.claim, new, key=self.key, now_ms=self.now_ms)

    def act(self) -> None:
        """Record that the turn has acted: a second run of it would act again.

        Raises:
            ClaimLost: the turn is over.
        """
        if self.claim is not None:
            spoken.act(self.conn, self.claim, key=self.key, now_ms=self.now_ms)


class HandedOver(NamedTuple):
    """A file as the agent names it, and the limits of its receiver."""

    name: str
    taker: FileTaker


class SpokenText(NamedTuple):
    """A text to be spoken, and the limits of its receiver."""

    text: str
    taker: FileTaker


Speak = Callable[[Agent, str], Awaitable[bytes | None]]
"""A text as sound, in the voice of this agent; None: the agent has no voice. It raises ``PostroomError``."""


class Tool(msgspec.Struct, frozen=True):
    """A tool: *description* is for a model, and says when to use it and what it answers.

    Attributes:
        run: does it, in the transaction of the call, and returns what the model reads. The model also reads an error
            that it raises; then nothing is kept.
        reads: it changes nothing, so a repeated call runs again.
        reads_long: it reads in a thread, on a connection of its own, so that other turns do not wait.
        is_repeatable: where the caller gives its calls no ids, the same arguments again are another call.
        kicks: the functions that look for work afterwards.
        hands_over: the file of the outbox that the call hands over, and who gets it; None: no file. It only reads, and
            refuses what ``run`` would refuse; the file is copied before the transaction.
        described_by: the arguments of another tool, which describe those that this tool also has.
        speaks: the text that the call wants spoken; likewise, it only reads, and the sound is made before.
    """

    name: str
    description: str
    arguments: type[Arguments]
    run: Callable[[ToolCall, Any], str]
    permission: Permission = "session"
    reads: bool = False
    reads_long: bool = False
    is_repeatable: bool = False
    kicks: tuple[str, ...] = ()
    hands_over: Callable[[ToolCall, Any], HandedOver | None] | None = None
    described_by: type[Arguments] | None = None
    speaks: Callable[[ToolCall, Any], SpokenText] | None = None


class NotPossibleYet(WrongState):
    """The channel can't do what the tool asks; the message says what to do instead. Nothing was stored."""
