"""Writes what became of a call to a platform."""

from collections.abc import Callable
from typing import TypeVar

import apsw

from shared.runtime import retries
from shared.runtime.worker_service import WorkerService

T = TypeVar("T")

_PAUSES_S = (0.1, 0.5, 2.0, *[5.0] * 100)  # a full disk or a long lock: as long as a lease lasts


async def write_durably(service: WorkerService, work: Callable[[apsw.Connection], T]) -> T:
    """Write, durably; where the database can't be written, try for as long as a lease lasts.

    A send can't be undone, and only we know of it. Giving up means that it is sent twice, or counts as not sent.
    """
    is_alone = service.worker.running <= 1
    return await retries.write(service.writer, work, alone=is_alone, pauses_s=_PAUSES_S, event="deliver.not_written")
