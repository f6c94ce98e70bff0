"""Asks a host of models, without cost, whether it takes our key or login: by its list of models, which is not kept.

A key may be allowed to use models and not to list them, and so may the login of a plan: that is not known then.
"""

from typing import Literal

import aiohttp

from shared.core import logs
from shared.turns.gateway import headers
from shared.turns.gateway.upstreams import ModelUpstream

log = logs.get()

LoginState = Literal["accepted", "refused", "unknown", "unreachable"]

_PATIENCE = aiohttp.ClientTimeout(total=15.0, connect=10.0)
_MOST_BYTES = 64 * 1024
_ASKED = [(b"anthropic-version", b"2023-06-01")]  # the other hosts take no notice of it
_OF_THE_LIST_ALONE = (b"scope", b"insufficient permissions", b"not supported")


async def ask(upstream: ModelUpstream) -> LoginState:
    """One request, of at most 15 seconds; it follows no redirect, which could carry the key elsewhere."""
    try:
        async with (
            aiohttp.ClientSession(timeout=_PATIENCE, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.get(_url(upstream), headers=headers.sent(_ASKED, upstream), allow_redirects=False) as answer,
        ):
            state = _judge(upstream, answer.status, await answer.content.read(_MOST_BYTES))
            status: int | None = answer.status
    except (aiohttp.ClientError, OSError) as error:  # TimeoutError too; the error's text may have the address in it
        log.info("models.login_asked", upstream=upstream.name, state="unreachable", error=type(error).__name__)
        return "unreachable"
    log.info("models.login_asked", upstream=upstream.name, state=state, status=status)
    return state


def _url(upstream: ModelUpstream) -> str:
    return upstream.base_url + ("/v1/models" if upstream.name == "anthropic" else "/models")


def _judge(upstream: ModelUpstream, status: int, body: bytes) -> LoginState:
    if status == 200:
        return "accepted"
    if status not in (401, 403) or any(words in body.lower() for words in _OF_THE_LIST_ALONE):
        return "unknown"
    return "unknown" if status == 403 and upstream.paid_by == "plan" else "refused"
