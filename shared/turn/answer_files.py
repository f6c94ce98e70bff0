"""The files of an answer: those that the agent sends from its outbox, and a long text as a file with a preview.

A client that fetches its answers over REST gets the files' paths with them, and a long text as a file. A channel gets
the files that it can send; long texts go out in pages there. Whatever is not sent is told, to the person and the agent.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from shared.agents import session_files
from shared.agents.session_files import NotSendable
from shared.channels import outgoing_files, part_plan
from shared.channels.base import FileLimits, OutgoingFile
from shared.core import logs

log = logs.get()

LONGEST_TEXT = 4000  # characters, where files can be sent
MOST_FILES = 20  # of one answer

_FULL_TEXT = "response.md"
_NOTE = "\n\n_(The full answer is attached as a file.)_"


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


class Attached(NamedTuple):
    """An answer as it goes out. *problems*: the sentences in the text about files that are not sent."""

    text: str
    files: tuple[OutgoingFile, ...]
    problems: tuple[str, ...]


def attached(text: str, wanted: Sequence[str], place: FilePlace, taker: FileTaker) -> Attached:
    """The answer with copies of its files. Reads and writes files: not for the loop.

    Args:
        wanted: the files that the agent sends, as it named them.
    """
    sent: list[OutgoingFile] = []
    notes: list[str] = []
    for name in wanted[:MOST_FILES]:
        try:
            sent.append(copied(name, place, taker))
        except NotSendable as error:
            notes.append(part_plan.told(_shown(name), str(error)))
    if len(wanted) > MOST_FILES:
        notes.append(f"({len(wanted) - MOST_FILES} more files were not sent: {MOST_FILES} is the most.)")
    text = "\n\n".join(filter(None, [text, *notes]))
    if taker.is_fetched:
        text, sent = _with_preview(text, place, sent)
    return Attached(text, tuple(sent), tuple(notes))


def copied(name: str, place: FilePlace, taker: FileTaker) -> OutgoingFile:
    """A copy of the file of the outbox, as it goes out.

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
        with contextlib.suppress(OSError):
            copy.unlink()
        raise NotSendable(problem)
    return file


def _shown(name: str) -> str:
    return session_files.safe_name(name.rpartition("/")[2])


def _with_preview(text: str, place: FilePlace, sent: list[OutgoingFile]) -> tuple[str, list[OutgoingFile]]:
    if len(text) <= LONGEST_TEXT:
        return text, sent
    try:
        path = session_files.new_file(place.target, _FULL_TEXT, text.encode("utf-8", "replace"))
        return text[:LONGEST_TEXT] + _NOTE, [*sent, outgoing_files.described(path)]
    except OSError:
        log.exception("answer.file_not_written", session=place.session)
        return text, sent
