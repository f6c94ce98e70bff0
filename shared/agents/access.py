"""What a turn gives its provider besides the prompt: access to models and tools.

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
        token: identifies the program for models and tools; it takes the place of a key, and is valid only during a
        turn.
        is_plan: the token takes the place of a plan's login, not of a key.
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
    """What the model reads as the answer of a call. An error says what to do instead."""

    text: str
    is_error: bool = False


class Toolbox(Protocol):
    """The tools of one turn, in this process. The MCP server shows the same ones to programs."""

    def specs(self) -> Sequence[ToolSpec]:
        """The tools that this session may use."""

    async def call(self, name: str, arguments: Mapping[str, Any], *, call_id: str | None = None) -> ToolAnswer:
        """Call a tool; a mistake of the model raises nothing.

        Args:
            call_id: the caller's own id of this call, if it has one; a second call with the same id only repeats the
            answer.
        """


class PermissionAsked(NamedTuple):
    """An action that an agent's own program asks permission for.

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
    """The decision. *reason*: what the model reads if the answer is no."""

    is_allowed: bool
    reason: str = ""


class Permissions(Protocol):
    """Answers a program that asks before it does something. The limits of its turn are suspended while it waits."""

    async def ask(self, asked: PermissionAsked) -> PermissionAnswer:
        """Wait for an approver's decision. No decision in time is a no; it never raises for that."""


class Doors(Protocol):
    """A turn's access for its program. It closes with the turn."""

    async def open(self, upstream: str | None, *, has_sandbox: bool, lives_on: bool = False) -> ProgramAccess:
        """Access for a program that is to be started.

        Args:
            upstream: the models that it may use: ``anthropic``, ``openai``, ``local``; None: tools only.
            lives_on: the program also runs later turns of this session: its token is refused between turns, until
                :meth:`enter`. Otherwise the token ends with the turn.

        Raises:
            ConfigInvalid: there is no key for these models, or a setting is wrong.
            OSError: the socket can't be made.
        """

    def enter(self, access: ProgramAccess) -> None:
        """Admit a program that lives on to this turn: its token is valid for this turn now.

        Raises:
            KeyError: its token is closed, or belongs to another session; start a new program.
        """

    def close(self, access: ProgramAccess) -> None:
        """The program is gone: refuse its token from now on. May be called after the turn, and more than once."""
