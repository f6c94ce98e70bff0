"""Asks a platform about our token, and says why it is not known to be accepted."""

import asyncio

from shared.channels.base import Channel
from shared.core import logs
from shared.core.errors import PostroomError
from shared.runtime.http_client import Client

log = logs.get()

LIMIT_S = 10.0


async def problem(channel: Channel, client: Client) -> str | None:
    """Why the token is not known to be accepted, for people; None: it is accepted. Never raises."""
    try:
        async with asyncio.timeout(LIMIT_S):
            await channel.check_token(client)
    except TimeoutError:
        return f"the platform did not answer within {LIMIT_S:g} s"
    except PostroomError as error:
        return str(error)
    except Exception as error:  # the batch boundary: a bug in an adapter is no accepted token
        log.exception("channel.check_failed", channel=channel.name)
        return f"the check of the token failed ({type(error).__name__}); the log says where"
    return None
