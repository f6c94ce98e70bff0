"""A file of a session's outbox on its way out: a copy that the agent's program can't reach, described."""

import contextlib
from pathlib import Path
from typing import NamedTuple

from shared.agents import session_files
from shared.agents.session_files import NotSendable
from shared.channels import outgoing_files
from shared.channels.base import FileLimits, OutgoingFile
from shared.core import logs

log = logs.get()


class FilePlace(NamedTuple):
    """The folder of the agent, the visible id of the session, and the folder for copies of the turn."""

    folder: Path
    session: str
    target: Path


class FileTaker(NamedTuple):
    """What the receiver of an answer can be given.

    Attributes:
        is_fetched: a client of this host fetches the answer, with files of any size and long texts as files.
        limits: of the channel; None: it sends no files.
    """

    is_fetched: bool = False
    limits: FileLimits | None = None

    @property
    def takes_files(self) -> bool:
        """Whether it can be given files at all."""
        return self.is_fetched or self.limits is not None


FOR_AGENTS = FileTaker(limits=FileLimits(session_files.LARGEST_RECEIVED_BYTES))
"""Another agent: it finds the copy in its inbox."""

FOR_ANY = FileTaker(limits=FileLimits(session_files.LARGEST_BYTES))
"""A receiver that is looked up later, and may still refuse it."""


def copy_file(name: str, place: FilePlace, taker: FileTaker) -> OutgoingFile:
    """A copy of the file of the outbox, as it goes out. Reads and writes files: not for the loop.

    Raises:
        NotSendable: it can't be sent.
    """
    target = place.target if taker.takes_files else None
    try:
        copy = session_files.copy_from_outbox(place.folder, place.session, name, target)
        if copy is None:
            raise NotSendable("this channel can't send files. It is kept in the outbox")
        file = outgoing_files.described(copy)
    except OSError:
        log.exception("answer.file_not_copied", session=place.session)
        raise NotSendable("it could not be copied; the log says why") from None
    problem = None if taker.limits is None else outgoing_files.too_large(file.size, file.kind, taker.limits)
    if problem is not None:
        discard(file)
        raise NotSendable(problem)
    return file


def discard(file: OutgoingFile) -> None:
    """Delete a copy that goes nowhere."""
    with contextlib.suppress(OSError):
        file.path.unlink()
