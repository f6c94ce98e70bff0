"""A turn's claim as a value, and what a failed attempt does to a message."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from shared.core.errors import ClaimLost
from shared.core.failures import FailureCode
from shared.db.queue.events import EventData
from shared.db.queue.message_row import Message


@dataclass(frozen=True, slots=True)
class Claim:
    """A turn's hold on a batch: its token, and the messages in the order of their arrival.

    Attributes:
        told: what joined while the turn ran, and what its agent was told. It is completed with the batch; after any
            other end it is as if no turn had taken it.
        untold: what joined, and what the agent did not take. It waits for the next turn, however this one ends.
    """

    token: str
    session_id: int
    agent: str
    batch: tuple[Message, ...]
    told: tuple[Message, ...] = ()
    untold: tuple[Message, ...] = ()

    @property
    def held(self) -> tuple[Message, ...]:
        """All messages that the turn holds."""
        return (*self.batch, *self.told, *self.untold)

    @property
    def ids(self) -> str:
        """The rows' ids as a JSON array, for ``json_each``."""
        return json_ids(self.held)

    @property
    def goes_on(self) -> bool:
        """Whether the turn goes on with what an earlier one said. The batch lets such messages be alone."""
        return self.asked[0].spoken not in (None, self.token)

    @property
    def asked(self) -> tuple[Message, ...]:
        """The messages that ask for the turn; the others are context."""
        return tuple(message for message in self.batch if message.trigger)

    @property
    def answered(self) -> tuple[Message, ...]:
        """The messages that the turn answers: those that ask for it, and those that it was told while it ran."""
        return (*self.asked, *(message for message in self.told if message.trigger))


@dataclass(frozen=True, slots=True)
class MessageVerdict:
    """What a failed attempt does to a message: a retry from *process_after* on, or the end. The caller decides.

    Attributes:
        reason: for people; no statement reads it.
        waits_since: when the first of its last waits began that cost no attempt, in ms; None: this is none.
        runs_alone: from now on no other message joins its turn.
        suspicion: how much speaks for it that it takes dispatch down.
    """

    dead: bool
    retry_count: int
    process_after: int | None
    reason: str
    failure: FailureCode = "error"
    waits_since: int | None = None
    runs_alone: bool = False
    suspicion: int = 0

    @property
    def status(self) -> str:
        """The state that the message goes to."""
        return "dead" if self.dead else "pending"

    @property
    def outcome(self) -> EventData:
        """What its event says."""
        return {
            "reason": self.reason,
            "failure": self.failure,
            "retry_count": self.retry_count,
            "process_after": self.process_after,
        }


def json_ids(messages: Iterable[Message]) -> str:
    """The rows' ids as a JSON array, for ``json_each``."""
    return json.dumps([message.id for message in messages])


def check_all(claim: Claim, changed: int) -> None:
    """A statement must have changed every row of the claim.

    Raises:
        ClaimLost: it did not.
    """
    size = len(claim.held)
    if changed != size:
        raise ClaimLost(
            f"turn {claim.token} has {changed} of its {size} messages; a rescue or a cancellation took them"
        )
