"""Writes that are worth repeating: a full disk or a long lock must not undo work that was done outside."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import apsw

from shared.core import logs
from shared.db.engine.group_commit import Writer

log = logs.get()

T = TypeVar("T")


async def write(
    writer: Writer,
    work: Callable[[apsw.Connection], T],
    *,
    alone: bool,
    pauses_s: Iterable[float],
    event: str,
    **facts: Any,
) -> T:
    """Run *work* durably; after each database error wait for the next of *pauses_s* and run it again.

    Args:
        alone: as for ``Writer.run``.
        event: the log event of each failed attempt, with *facts*.

    Raises:
        apsw.Error: the attempt after the last pause failed too.
    """
    for pause_s in pauses_s:
        try:
            return await writer.run(work, alone=alone)
        except apsw.Error:
            log.exception(event, again_in_s=pause_s, **facts)
            await asyncio.sleep(pause_s)
    return await writer.run(work)
