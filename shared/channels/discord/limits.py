"""What a call of Discord's API counts against, and what its answer says about Discord's limits. Pure.

Discord names its buckets in headers: nothing here knows how many calls they allow. A bucket counts apart for each
channel, guild or webhook. The limit of the whole application does not count calls with an interaction's token.

Source: https://docs.discord.com/developers/topics/rate-limits.
"""

import hashlib
import math
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from shared.core.call_scopes import NO_LIMITS, CallAllowance, CallLimits, CallScopes, LimitHold, Scope

DEFAULT_WAIT_MS = 5_000
BLOCKED_WAIT_MS = 5 * 60_000  # a 429 without JSON comes from Cloudflare, which blocks this address for minutes
LONGEST_WAIT_MS = 24 * 60 * 60_000

_APPLICATION = Scope("application")
_ADDRESS = Scope("address", "discord")
_PLACES = ("channels", "guilds", "webhooks", "interactions")
_INVALID = (401, 403, 429)


def scopes_of(account: str, method: str, url: str, *, is_token: bool = False) -> CallScopes:
    """The scopes of a call.

    Args:
        is_token: an interaction's token allows the call, not the bot's.
    """
    route, place = _route(url)
    name = f"{method} {route}"
    own = Scope("method", f"{name} {place}" if place else name)
    if is_token:
        return CallScopes(account, "discord", name, (own,), read, place)
    return CallScopes(account, "discord", name, (own, _APPLICATION), read, place, allowances(""))


def allowances(_: str) -> tuple[CallAllowance, ...]:
    """The one limit that Discord states: 50 calls a second of an application. It names its buckets in answers."""
    return (CallAllowance(_APPLICATION, 50, 1000),)


def _route(url: str) -> tuple[str, str | None]:
    """The path with ``{}`` for each id, and the id that buckets are counted by. No token of the path is in either."""
    parts = re.sub(r"^.*?/v\d+/", "/", urlsplit(url).path).strip("/").split("/")
    if len(parts) > 1 and parts[0] in _PLACES:
        secrets = 2 if parts[0] in ("webhooks", "interactions") and len(parts) > 2 else 1
        place = "/".join(parts[1 : 1 + secrets])
        rest = ["{}"] * secrets + [_segment(part) for part in parts[1 + secrets :]]
        shown = hashlib.blake2b(place.encode(), digest_size=8).hexdigest() if secrets == 2 else place
        return "/" + "/".join([parts[0], *rest]), shown
    return "/" + "/".join(_segment(part) for part in parts), None


def _segment(part: str) -> str:
    return part if re.fullmatch(r"[a-z@-]+", part) else "{}"


def read(scopes: CallScopes, status: int, headers: Mapping[str, str], payload: Mapping[str, Any]) -> CallLimits:
    """The bucket of the call, the wait that its answer asks for, and whether Discord counts it as invalid."""
    bucket = headers.get("x-ratelimit-bucket")
    if status == 429:
        hold = _asked(scopes, headers, payload, bucket)
        return CallLimits((hold,), bucket, counts_as_invalid=_scope_word(headers) != "shared")
    holds: tuple[LimitHold, ...] = ()
    if bucket and headers.get("x-ratelimit-remaining") == "0":
        wait_ms = _milliseconds(headers.get("x-ratelimit-reset-after"))
        if wait_ms:
            holds = (LimitHold(scopes.in_bucket(bucket), wait_ms, "the calls that Discord allows here are used up"),)
    if not (bucket or holds or status in _INVALID):
        return NO_LIMITS
    return CallLimits(holds, bucket, counts_as_invalid=status in _INVALID)


def _asked(scopes: CallScopes, headers: Mapping[str, str], payload: Mapping[str, Any], bucket: str | None) -> LimitHold:
    """The wait of a 429, with its scope."""
    wait_ms = retry_after_ms(payload, headers)
    if not payload:
        return LimitHold(_ADDRESS, wait_ms, f"Cloudflare blocks this machine's calls to Discord for {_words(wait_ms)}")
    reason = f"Discord asked for a wait of {_words(wait_ms)}"
    if payload.get("global") is True or "x-ratelimit-global" in headers or _scope_word(headers) == "global":
        return LimitHold(_APPLICATION, wait_ms, f"{reason}, for the whole application")
    return LimitHold(scopes.in_bucket(bucket) if bucket else scopes.scopes[0], wait_ms, reason)


def _scope_word(headers: Mapping[str, str]) -> str:
    return headers.get("x-ratelimit-scope", "")


def retry_after_ms(payload: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> int:
    """The wait in the body, which is exact, else in the ``Retry-After`` header, else a default."""
    seconds = payload.get("retry_after")
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds < 86_400:
        return max(math.ceil(seconds * 1000), 1)
    said = _milliseconds((headers or {}).get("retry-after"))
    return said or (DEFAULT_WAIT_MS if payload else BLOCKED_WAIT_MS)


def _milliseconds(seconds: str | None) -> int | None:
    """A header's seconds in ms, at least 1 and a day at most; None where it holds no such number."""
    if seconds is None or not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,9})?", seconds):
        return None
    return min(max(math.ceil(float(seconds) * 1000), 1), LONGEST_WAIT_MS)


def _words(wait_ms: int) -> str:
    return f"{wait_ms / 1000:g} s"
