"""Tokens of programs: what a program has instead of a key. A token names a process, and is good only while that process
runs a turn.

::

    issue ──> between turns ──begin──> in a turn ──end──> between turns ──revoke──> unknown
"""

import asyncio
from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec

from shared.agents.access import Toolbox
from shared.agents.host_access import NOTHING, Allowed
from shared.core import chance
from shared.core.text import redaction
from shared.db.spending.usage import TurnName

Reason = Literal[
    "budget",
    "unpriced",
    "quota",
    "login_refused",
    "model_not_found",
    "rate_limited",
    "overloaded",
    "unreachable",
    "unwritten",
    "cut",
    "not_allowed",
]


class Refusal(NamedTuple):
    """Why a model request of a turn got no whole answer, for the code that runs the program.

    Attributes:
        reason: ``budget``: it is used up, until *until_ms*; ``unpriced``: no price is known, so no budget can hold;
            ``quota`` (a plan is used up, or an account has no credit), ``login_refused``, ``model_not_found``,
            ``rate_limited``, ``overloaded``: the model's host said so; ``unreachable``: it could not be reached, or was
            silent; ``unwritten``: it was not sent, because it could not be noted; ``cut``: its answer ended before the
            end; ``not_allowed``: the gateway does not pass it on.
        sentence: for the operator; no secret, and nothing of a body.
        until_ms: when another request may succeed (ms UTC); None: not known.
    """

    reason: Reason
    sentence: str
    until_ms: int | None = None

    @property
    def is_final(self) -> bool:
        """Whether every further request of the turn would be refused too."""
        return self.reason in ("budget", "unpriced", "quota", "login_refused")


class ProgramTurn(msgspec.Struct, eq=False):
    """The turn that a process is in.

    Attributes:
        on_refusal: called in the event loop with the outcome of each model request, before the program gets the answer:
            why it got no whole one; None where it got one, or an error about the request itself.
        tools: what the turn may do; None: no tools are served.
        allowed: what its requests may have beyond questions and answers.
        requests: its requests that are under way; the end of the turn cancels them.
    """

    name: TurnName
    on_refusal: Callable[[Refusal | None], None]
    tools: Toolbox | None = None
    allowed: Allowed = NOTHING
    requests: set[asyncio.Task[bool]] = msgspec.field(default_factory=set)


class _Program(msgspec.Struct):
    door: str
    upstream: str | None
    owner: tuple[str, str]  # agent and session
    turn: ProgramTurn | None = None


class TokenBook:
    """The tokens of this process's programs. They are kept in memory only: a program does not outlive dispatch."""

    def __init__(self) -> None:
        self._programs: dict[str, _Program] = {}

    def issue(self, name: TurnName, upstream: str | None, prefix: str = "", *, door: str = "") -> str:
        """A new token, for one program of this agent and session; no turn yet.

        Args:
            door: of the server: the token is good there only.
            upstream: the host of models that the program may use, by name; None: none.
            prefix: the form that the program wants a login to have.
        """
        token = f"{prefix}{chance.token_urlsafe(32)}"
        redaction.register_brief(token)
        self._programs[token] = _Program(door, upstream, (name.agent, name.session))
        return token

    def begin(self, token: str, turn: ProgramTurn) -> None:
        """The program runs this turn from now on.

        Raises:
            KeyError: the token is not of this book, or belongs to a program of another session.
        """
        program = self._programs[token]
        if program.owner != (turn.name.agent, turn.name.session):
            raise KeyError("the program belongs to another session")
        self.end(token)
        redaction.register_brief(token)  # a program that lives long keeps its token hidden
        program.turn = turn

    def end(self, token: str) -> None:
        """End the turn: cut off its requests, and let no other through. An unknown token is ignored."""
        program = self._programs.get(token)
        if program is None or program.turn is None:
            return
        turn, program.turn = program.turn, None
        for request in turn.requests:
            request.cancel()

    def revoke(self, token: str) -> None:
        """Forget the token of a program that is gone. An unknown token is ignored."""
        self.end(token)
        self._programs.pop(token, None)

    def door(self, token: str) -> str | None:
        """The door behind which the token is valid; None: it is unknown."""
        program = self._programs.get(token)
        return program.door if program else None

    def is_used(self, door: str) -> bool:
        """Whether a program has this door."""
        return any(each.door == door for each in self._programs.values())

    def knows(self, token: str) -> bool:
        """Whether a program has this token."""
        return token in self._programs

    def turn(self, token: str) -> ProgramTurn | None:
        """The turn that the token's program runs; None between turns, and for an unknown token."""
        program = self._programs.get(token)
        return program.turn if program else None

    def tools(self, token: str) -> Toolbox | None:
        """The tools of the turn that the token's program runs; None as in :meth:`turn`."""
        turn = self.turn(token)
        return turn.tools if turn else None

    def upstream(self, token: str) -> str | None:
        """The host of models that the token's program may use, by name."""
        program = self._programs.get(token)
        return program.upstream if program else None
