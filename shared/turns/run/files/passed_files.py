"""Gets the files that agents passed on, for ``inbox``: from the copies on this host, which no program can reach."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shared.agents import own_files
from shared.core.errors import NotFetched
from shared.queue.teamwork import mailbox, rooms
from shared.turns.run.files.inbox import Fetch


def beside(fetch: Fetch, store: Path) -> Fetch:
    """*fetch*, and for messages between agents the copies in the folder *store*."""

    async def fetch_any(channel: str, attachment: Mapping[str, Any], limit_bytes: int) -> bytes:
        if channel not in (mailbox.CHANNEL, rooms.CHANNEL):
            return await fetch(channel, attachment, limit_bytes)
        return await asyncio.to_thread(_read, store, str(attachment.get("file_id")), limit_bytes)

    return fetch_any


def _read(store: Path, file_id: str, limit_bytes: int) -> bytes:
    folder, _, name = file_id.partition("/")
    if not folder or not name or "/" in name or {folder, name} & {".", ".."}:
        raise NotFetched("its row names no file of this host")
    found = own_files.read(store, file_id, most_bytes=limit_bytes)
    if found is None:
        raise NotFetched("it is no longer on this host")
    return found
