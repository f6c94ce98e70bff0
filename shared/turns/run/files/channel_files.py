"""Gets the files that people sent from their platforms, for ``inbox``."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import apsw

from shared.channels import registry
from shared.channels.base import Channel
from shared.core import logs
from shared.core.errors import NotFetched, PostroomError, RetryableError
from shared.core.text import redaction
from shared.roster.served_accounts import ServedAccounts
from shared.runtime.http_client import Client

log = logs.get()

PAUSES_S = (1.0, 5.0)  # between attempts: the turn waits
_LONGEST_PAUSE_S = 15.0  # that a platform may ask for


class ChannelFiles:
    """Fetches attachments through the adapters of their channels.

    Args:
        reader: a connection that only reads.
        pauses_s: the waits between attempts.
    """

    def __init__(
        self, reader: apsw.Connection, accounts: ServedAccounts, client: Client, pauses_s: Sequence[float] = PAUSES_S
    ) -> None:
        self._reader = reader
        self._accounts = accounts
        self._client = client
        self._pauses_s = pauses_s

    async def fetch(self, channel: str, attachment: Mapping[str, Any], limit_bytes: int) -> bytes:
        """The content of an attachment of a message of *channel*.

        Raises:
            NotFetched: it can't be had; the message is the reason, for people.
        """
        most = registry.traits(channel).fetch_bytes
        if most is None:
            raise NotFetched("Postroom can't fetch files of this channel")
        adapter = await self._accounts.find(self._reader, channel)
        if adapter is None:
            raise NotFetched("the channel is no longer set up on this host")
        try:
            return await self._patiently(adapter, attachment, min(most, limit_bytes))
        except NotFetched:
            raise
        except PostroomError as error:
            raise NotFetched(redaction.redact(str(error))) from None
        except Exception as error:  # the batch boundary: a bug in an adapter must not cost the turn
            log.exception("inbox.fetch_failed", channel=channel)
            raise NotFetched(f"the channel failed ({type(error).__name__}); the operator's log says where") from None

    async def _patiently(self, adapter: Channel, attachment: Mapping[str, Any], limit_bytes: int) -> bytes:
        for pause_s in self._pauses_s:
            try:
                return await adapter.fetch(attachment, self._client, limit_bytes=limit_bytes)
            except RetryableError as error:
                wait_s = max(pause_s, (error.retry_after_ms or 0) / 1000)
                if wait_s > _LONGEST_PAUSE_S:
                    raise
                await asyncio.sleep(wait_s)
        return await adapter.fetch(attachment, self._client, limit_bytes=limit_bytes)
