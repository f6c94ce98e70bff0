"""Tokens of programs: what a program has instead of a key. A token names a process, and is good only while that process
runs a turn.

::

    issue ──> between turns ──begin──> in a turn ──end──> between turns ──revoke──> unknown
"""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from shared.core import redaction
from shared.db.spending.usage import TurnName

Reason = Literal["budget", "unpriced", "rate_limited", "overloaded", "login_refused", "unreachable", "cut"]


class Refusal(NamedTuple):
    """Why a model request of a turn got no whole answer, for the code that runs the program.

    Attributes:
        reason: ``budget``: it is used up, until *until_ms*; ``unpriced``: no price is known, so no budget can hold;
            ``rate_limited``, ``overloaded``, ``login_refused``: the model's host said so; ``unreachable``: it could
            not be reached; ``cut``: its answer ended before the end.
        sentence: for the operator; no secret, and nothing of a body.
        until_ms: when another request may succeed (ms UTC); None: not known.
    """

    reason: Reason
    sentence: str
    until_ms: int | None = None


@dataclass(slots=True, eq=False)
class ModelTurn:
    """The turn that a process is in.

    Attributes:
        upstream: the model host that its agent may use, by name.
        on_refusal: called in the event loop, before the program gets the answer.
        requests: its requests that are under way; the end of the turn cancels them.
    """

    name: TurnName
    upstream: str
    on_refusal: Callable[[Refusal], None]
    requests: set[asyncio.Task[bool]] = field(default_factory=set)


class TokenBook:
    """The tokens of this process's programs. They are kept in memory only: a program does not outlive dispatch."""

    def __init__(self) -> None:
        self._turns: dict[str, ModelTurn | None] = {}

    def issue(self, prefix: str = "") -> str:
        """A new token, for one program; no turn yet. *prefix*: the form that the program wants a login to have."""
        token = f"{prefix}{secrets.token_urlsafe(32)}"
        redaction.register_brief(token)
        self._turns[token] = None
        return token

    def begin(self, token: str, turn: ModelTurn) -> None:
        """The program runs this turn from now on.

        Raises:
            KeyError: the token is not of this book.
        """
        self.end(token)
        redaction.register_brief(token)  # a program that lives long keeps its token hidden
        self._turns[token] = turn

    def end(self, token: str) -> None:
        """The turn is over: its requests are cut off, and no other is let through.

        Raises:
            KeyError: the token is not of this book.
        """
        turn, self._turns[token] = self._turns[token], None
        for request in turn.requests if turn else ():
            request.cancel()

    def revoke(self, token: str) -> None:
        """The program is gone. A token that is unknown already stays so."""
        if token in self._turns:
            self.end(token)
            del self._turns[token]

    def knows(self, token: str) -> bool:
        """Whether a program has this token."""
        return token in self._turns

    def turn(self, token: str) -> ModelTurn | None:
        """The turn that the token's program runs; None between turns, and for an unknown token."""
        return self._turns.get(token)
