"""What platforms let through of our calls, counted before they refuse one.

The counts are in memory, because one ``deliver`` sends on a database. What was sent lately stands in the rows, and a
new process begins with that.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable

import apsw

from shared.channels import registry
from shared.core.call_scopes import CallAllowance, CallLimits, CallScopes, Scope
from shared.core.time import clock
from shared.db.queue import responses

LONGEST_WINDOW_MS = 60_000
_MANY_WINDOWS = 1000  # then those that are over are deleted

_Key = tuple[str, CallAllowance]


class SendRoom:
    """The calls that are under way and those that ended lately, by account and allowance.

    A call counts from before it leaves until the window is over after its answer. The platform counts it at some
    instant in between, so it never counts more calls within a window than it allows.

    After a long wait that the platform asked of one chat, one send asks for all others of the account whether they may
    go out. A new process asks once more.
    """

    def __init__(self, now_ms: Callable[[], int] = clock.now_ms) -> None:
        self._now_ms = now_ms
        self._under_way: Counter[_Key] = Counter()
        self._ended: dict[_Key, deque[int]] = {}
        self._reserved: Counter[tuple[str, tuple[CallAllowance, ...]]] = Counter()
        self._doubted: dict[str, Scope] = {}  # by account: of a long wait, which may be about the whole account

    def remember(self, conn: apsw.Connection) -> None:
        """Count what the rows say was sent within the longest window, by any process."""
        for account, platform_id, at_ms, calls in responses.sent_since(conn, self._now_ms() - LONGEST_WINDOW_MS):
            for allowance in registry.traits(account).allowances(platform_id):
                self._note((account, allowance), calls, at_ms)

    def left(self, account: str) -> int | None:
        """How many sends to different chats fit now; None: any number."""
        of_all = [(account, each) for each in _of_all(account)]
        if account in self._doubted:
            return min((1 - self._under_way[key] for key in of_all), default=None)
        return min((key[1].calls - self._used(key) for key in of_all), default=None)

    def used(self, account: str, platform_id: str) -> int:
        """How many of our calls to the chat the platform still counts."""
        return max((self._used((account, each)) for each in _of_chat(account, platform_id)), default=0)

    def opens_at(self, account: str, platform_id: str | None = None) -> int | None:
        """From when one more send to the chat fits, or with None to any chat, in ms UTC; None: now."""
        found = _of_all(account) if platform_id is None else _of_chat(account, platform_id)
        return self._opens_at(account, found, 1)

    def reserve(self, account: str, platform_id: str) -> None:
        """A send to the chat begins: its first call counts from now on."""
        allowances = registry.traits(account).allowances(platform_id)
        self._reserved[account, allowances] += 1
        self._begin(account, allowances, 1)

    def free(self, account: str, platform_id: str) -> None:
        """The send has ended, perhaps before any call."""
        allowances = registry.traits(account).allowances(platform_id)
        if self._takes_reserved(account, allowances):
            self._under_way -= Counter({(account, each): 1 for each in allowances})

    def enter(self, scopes: CallScopes) -> int | None:
        """Let the call out; the instant before which the platform would refuse it, and then nothing changes."""
        account, allowances, weight = scopes.account, scopes.allowances, scopes.weight
        if self._takes_reserved(account, allowances):
            weight -= 1  # of an album
        elif (opens_at := self._opens_at(account, allowances, weight)) is not None:
            return opens_at
        self._begin(account, allowances, weight)
        return None

    def leave(self, scopes: CallScopes) -> None:
        """The call has its answer, or will get none."""
        now_ms = self._now_ms()
        keys = [(scopes.account, each) for each in scopes.allowances]
        self._under_way -= Counter(dict.fromkeys(keys, scopes.weight))
        for key in keys:
            self._note(key, scopes.weight, now_ms)
        if len(self._ended) > _MANY_WINDOWS:
            self._ended = {key: ended for key, ended in self._ended.items() if ended[-1] > now_ms - key[1].per_ms}

    def learn(self, scopes: CallScopes, limits: CallLimits) -> CallLimits:
        """What an answer says about limits, in the light of a wait that may be about the whole account."""
        doubted = self._doubted.get(scopes.account)
        asked = next((hold for hold in limits.holds if hold.spreads_to is not None), None)
        if doubted is not None and scopes.allowances and doubted not in scopes.scopes:
            del self._doubted[scopes.account]
            if asked is not None and asked.spreads_to is not None:
                wider = asked._replace(scope=asked.spreads_to, spreads_to=None)
                return limits._replace(holds=(*limits.holds, wider))
        elif asked is not None and asked.is_doubtful:
            self._doubted[scopes.account] = asked.scope
        return limits

    def _takes_reserved(self, account: str, allowances: tuple[CallAllowance, ...]) -> bool:
        if not self._reserved[account, allowances]:
            return False
        self._reserved -= Counter({(account, allowances): 1})
        return True

    def _begin(self, account: str, allowances: Iterable[CallAllowance], weight: int) -> None:
        for each in allowances:
            self._under_way[account, each] += weight

    def _note(self, key: _Key, weight: int, at_ms: int) -> None:
        self._ended.setdefault(key, deque(maxlen=key[1].calls)).extend([at_ms] * weight)

    def _recent(self, key: _Key) -> list[int]:
        """The ends within the window, oldest first. A later one is of a clock that was ahead."""
        now_ms = self._now_ms()
        return [at_ms for at_ms in self._ended.get(key, ()) if now_ms - key[1].per_ms < at_ms <= now_ms]

    def _used(self, key: _Key) -> int:
        return self._under_way[key] + len(self._recent(key))

    def _opens_at(self, account: str, allowances: Iterable[CallAllowance], weight: int) -> int | None:
        found = [self._opening((account, each), weight) for each in allowances]
        return max((at_ms for at_ms in found if at_ms is not None), default=None)

    def _opening(self, key: _Key, weight: int) -> int | None:
        limit, recent = key[1], self._recent(key)
        too_many = self._under_way[key] + len(recent) + min(weight, limit.calls) - limit.calls
        if too_many <= 0:
            return None
        return (recent[too_many - 1] if too_many <= len(recent) else self._now_ms()) + limit.per_ms


def _of_all(account: str) -> tuple[CallAllowance, ...]:
    return tuple(each for each in registry.traits(account).allowances("") if each.scope.kind != "chat")


def _of_chat(account: str, platform_id: str) -> tuple[CallAllowance, ...]:
    return tuple(each for each in registry.traits(account).allowances(platform_id) if each.scope.kind == "chat")
