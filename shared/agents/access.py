"""What a turn gives its provider beyond the prompt: the way to models, and tools.

Dispatch implements both protocols (``shared/turns/run``); a provider only uses them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol


class ProgramAccess(NamedTuple):
    """What one program needs to reach models and tools.

    Attributes:
        socket: the Unix socket of dispatch's server for programs, for a sandbox.
        url: ``http://127.0.0.1:PORT`` for a program without one; None where it was not asked for.
        models: what the base URL of models has after the host: ``/anthropic``, ``/openai/v1`` or ``/local/v1``; empty
            where the program was given no models.
        tools: what the URL of the MCP server has after the host.
        token: names the program, to models and to tools alike; in place of a key, and good only during a turn.
        is_plan: the token stands for the login of a plan, and not for a key.
    """

    socket: Path
    url: str | None
    models: str
    tools: str
    token: str
    is_plan: bool


class ToolSpec(NamedTuple):
    """One tool: *schema* is the JSON schema of its arguments, an object."""

    name: str
    description: str
    schema: Mapping[str, Any]


class ToolAnswer(NamedTuple):
    """What the model reads of a call. An error says what to do instead."""

    text: str
    is_error: bool = False


class Toolbox(Protocol):
    """The tools of one turn, in this process. The MCP server shows the same ones to programs."""

    def specs(self) -> Sequence[ToolSpec]:
        """The tools that this session may use."""

    async def call(self, name: str, arguments: Mapping[str, Any], *, call_id: str | None = None) -> ToolAnswer:
        """Call a tool; never raises for what the model did wrong.

        Args:
            call_id: the caller's own id of this call, where it has one: a second call with it does nothing twice.
        """


class PermissionAsked(NamedTuple):
    """What an agent's own program asks before it does it.

    Attributes:
        tool: as the program names it.
        arguments: all of them; a yes is for exactly these.
        call: the program's id of the call.
        covers: the arguments that "always allow this here" would cover; None: it is not on offer, as for a shell, where
            the same words may do something else the next time.
        why: the program's or the model's reason.
    """

    tool: str
    arguments: Mapping[str, Any]
    call: str
    covers: Mapping[str, Any] | None = None
    why: str = ""


class PermissionAnswer(NamedTuple):
    """The decision. *reason*: what the model reads of a no."""

    is_allowed: bool
    reason: str = ""


class Permissions(Protocol):
    """Whom a program asks before it does something. The limits of its turn stand still while it waits."""

    async def ask(self, asked: PermissionAsked) -> PermissionAnswer:
        """Wait for an approver's decision. No decision in time is a no; it never raises for that."""


class Doors(Protocol):
    """The ways out of a turn for its program. They close with the turn, whatever ends it."""

    async def open(self, upstream: str | None, *, has_sandbox: bool, lives_on: bool = False) -> ProgramAccess:
        """Access for a program that is to be started.

        Args:
            upstream: the models that it may use: ``anthropic``, ``openai``, ``local``; None: tools only.
            lives_on: the program is to run later turns of this session too: between turns its token is refused, and
                :meth:`enter` lets it into the next one. Otherwise the token is gone with the turn.

        Raises:
            ConfigInvalid: there is no key for these models, or a setting is wrong.
            OSError: the socket can't be made.
        """

    def enter(self, access: ProgramAccess) -> None:
        """Let a program that lives on into this turn: its token now means this turn.

        Raises:
            KeyError: its token is closed, or belongs to another session; start the program anew.
        """

    def close(self, access: ProgramAccess) -> None:
        """The program is gone: its token is refused for ever. Also after the turn, and more than once."""
