"""Asks a platform about our token, and whether it answers to sends."""

import asyncio

from shared.channels.base import Channel
from shared.core import accounts, logs
from shared.core.errors import OutcomeUnknown, PermanentError, PlatformDown, PostroomError
from shared.runtime.http_client import Client

log = logs.get()

LIMIT_S = 10.0


async def problem(channel: Channel, client: Client, *, limit_s: float = LIMIT_S) -> str | None:
    """Why the token is not known to be accepted, for people; None: it is accepted. Never raises."""
    error = await failure(channel, client, limit_s=limit_s)
    return None if error is None else accounts.with_its_variables(channel.name, str(error))


async def silence(channel: Channel, client: Client, *, limit_s: float = LIMIT_S) -> PostroomError | None:
    """Why the platform is known to answer to no send; None: it may answer. Never raises."""
    try:
        async with asyncio.timeout(limit_s):
            await channel.check_sending(client)
    except TimeoutError:
        return OutcomeUnknown(f"the platform answers to no send within {limit_s:g} s")
    except (PlatformDown, OutcomeUnknown) as error:
        return error
    except PostroomError:
        return None
    except Exception:  # the batch boundary: a bug in an adapter is no outage
        log.exception("channel.check_failed", channel=channel.name)
    return None


async def failure(channel: Channel, client: Client, *, limit_s: float = LIMIT_S) -> PostroomError | None:
    """The error of asking the platform about our token; None: it answers, and accepts it. Never raises."""
    try:
        async with asyncio.timeout(limit_s):
            await channel.check_token(client)
    except TimeoutError:
        return OutcomeUnknown(f"the platform did not answer within {limit_s:g} s")
    except PostroomError as error:
        return error
    except Exception as error:  # the batch boundary: a bug in an adapter is no accepted token
        log.exception("channel.check_failed", channel=channel.name)
        return PermanentError(f"the check of the token failed ({type(error).__name__}); the log says where")
    return None
