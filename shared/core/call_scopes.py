"""What one call of a platform's API counts against, and what its answer says about the platform's limits.

An adapter names the scopes of its calls and reads the limits; the client that it is handed holds the calls and records
what was read. So an adapter keeps no state, and every process obeys what any process was told.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, Protocol

ScopeKind = Literal["method", "chat", "bot", "application", "bucket", "address"]
"""``address``: all calls of this machine to the platform, of every account."""


class Scope(NamedTuple):
    """One thing that a platform limits. *key* tells those of one kind apart, and is empty where there is only one."""

    kind: ScopeKind
    key: str = ""


class CallAllowance(NamedTuple):
    """The platform lets this many *calls* with this scope through within any *per_ms*, and refuses more."""

    scope: Scope
    calls: int
    per_ms: int


class LimitHold(NamedTuple):
    """The platform asked for a wait, for every call with this scope.

    Attributes:
        reason: for people, without secrets.
        spreads_to: the scope that waits as well if the platform asked for a wait of another scope of this kind within
            the last second, as where it limits a whole bot and names no scope; None: there is none.
        is_doubtful: the wait is so long that it may be about *spreads_to*: the next answer to a call of another scope
            of this kind tells.
    """

    scope: Scope
    wait_ms: int
    reason: str
    spreads_to: Scope | None = None
    is_doubtful: bool = False


class CallLimits(NamedTuple):
    """What an answer says about limits.

    Attributes:
        holds: the waits that it asks for.
        bucket: the platform's name of the bucket of this method, or None where it says none.
        counts_as_invalid: the platform counts the call among those for which it blocks an address.
    """

    holds: tuple[LimitHold, ...] = ()
    bucket: str | None = None
    counts_as_invalid: bool = False


NO_LIMITS = CallLimits()
LimitReader = Callable[["CallScopes", int, Mapping[str, str], Mapping[str, Any]], CallLimits]
"""Reads status, headers (names in lower case) and JSON object (empty where the body is none) of an answer. Pure."""


class CallScopes(NamedTuple):
    """What one call counts against.

    Attributes:
        account: the account's name, as in the ``channel`` columns.
        platform: the platform's name, the same for all its accounts.
        method: the method, with the ids in its path left out: ``sendMessage``, ``POST /channels/{}/messages``.
        scopes: what the call counts against as far as it is known beforehand.
        read: reads the limits from an answer.
        place: the id that a learnt bucket is counted by (the channel, guild or webhook of the path), or None.
        allowances: the limits that are known before the platform refuses a call.
        weight: how many calls it counts as.
    """

    account: str
    platform: str
    method: str
    scopes: tuple[Scope, ...]
    read: LimitReader
    place: str | None = None
    allowances: tuple[CallAllowance, ...] = ()
    weight: int = 1

    def in_bucket(self, bucket: str) -> Scope:
        """The scope of a bucket that the platform named."""
        return Scope("bucket", f"{bucket}:{self.place}" if self.place else bucket)


class CallPacing(Protocol):
    """The limits of platforms, as all processes know them."""

    async def admit(self, scopes: CallScopes) -> None:
        """Let the call go out.

        Raises:
            RateLimited: the platform asked for a wait that is not over, or would refuse the call; nothing was sent.
        """

    def leave(self, scopes: CallScopes) -> None:
        """The call that was let out has its answer, or will get none."""

    async def record(self, scopes: CallScopes, limits: CallLimits) -> None:
        """Keep what an answer said about limits. Never raises: the answer itself counts more."""
