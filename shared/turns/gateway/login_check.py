"""Asks a host of models, without cost, whether it takes our key or login: by its list of models, which is not kept.

A key may be allowed to use models and not to list them, and so may the login of a plan: that is not known then.
"""

import asyncio
from typing import Literal

from shared.core import logs
from shared.runtime.http1_client import HttpClient, whole
from shared.runtime.http_client import NoAnswer, RequestNotSent
from shared.turns.gateway import headers
from shared.turns.gateway.upstreams import ModelUpstream

log = logs.get()

LoginState = Literal["accepted", "refused", "unknown", "unreachable"]

_PATIENCE_S = 15.0
_ASKED = [(b"anthropic-version", b"2023-06-01")]  # the other hosts take no notice of it
_OF_THE_LIST_ALONE = (b"scope", b"insufficient permissions", b"not supported")


async def ask(upstream: ModelUpstream) -> LoginState:
    """One request, of at most 15 seconds; it follows no redirect, which could carry the key elsewhere."""
    client = HttpClient()
    try:
        async with (
            asyncio.timeout(_PATIENCE_S),
            client.stream("GET", _url(upstream), b"", headers.sent(_ASKED, upstream)) as answer,
        ):
            state: LoginState = (
                "accepted" if answer.status == 200 else _judge(upstream, answer.status, await whole(answer))
            )
    except (RequestNotSent, NoAnswer, TimeoutError) as error:  # the error's text may have the address in it
        log.info("models.login_asked", upstream=upstream.name, state="unreachable", error=type(error).__name__)
        return "unreachable"
    finally:
        await client.close()
    log.info("models.login_asked", upstream=upstream.name, state=state, status=answer.status)
    return state


def _url(upstream: ModelUpstream) -> str:
    return upstream.base_url + ("/v1/models" if upstream.name == "anthropic" else "/models")


def _judge(upstream: ModelUpstream, status: int, body: bytes) -> LoginState:
    if status not in (401, 403) or any(words in body.lower() for words in _OF_THE_LIST_ALONE):
        return "unknown"
    return "unknown" if status == 403 and upstream.paid_by == "plan" else "refused"
