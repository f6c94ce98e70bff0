"""The files of an answer: those that the agent sends from its outbox, and a long text as a file with a preview.

A client that fetches its answers over REST gets the files' paths with them. The channels of this release send texts
only: there the person is told which file waits, and long texts go out in pages.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from shared.core import logs
from shared.turn import session_files
from shared.turn.session_files import NotSendable

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


def attached(text: str, wanted: Sequence[str], place: FilePlace, *, takes_files: bool) -> tuple[str, list[Path]]:
    """The text of the answer as it goes out, and the copies of its files. Reads and writes files: not for the loop.

    Args:
        wanted: the files that the agent sends, as it named them.
        takes_files: whether the receiver can be given files.
    """
    sent: list[Path] = []
    notes: list[str] = []
    for name in wanted[:MOST_FILES]:
        note = _send(name, place, sent, takes_files=takes_files)
        notes += [note] if note else []
    if len(wanted) > MOST_FILES:
        notes.append(f"({len(wanted) - MOST_FILES} more files were not sent: {MOST_FILES} is the most.)")
    text = "\n\n".join(filter(None, [text, *notes]))
    return _with_preview(text, place, sent) if takes_files else (text, sent)


def _send(name: str, place: FilePlace, sent: list[Path], *, takes_files: bool) -> str | None:
    """Copy the file, where the receiver takes files; a sentence for the person where it is not sent."""
    target = place.target if takes_files else None
    try:
        copy = session_files.copy_from_outbox(place.folder, place.session, name, target)
    except NotSendable as error:
        return f"(The file {_shown(name)} was not sent: {error}.)"
    except OSError:
        log.exception("answer.file_not_copied", session=place.session)
        return f"(The file {_shown(name)} was not sent: it could not be copied; the log says why.)"
    if copy is None:
        return f"(The file {_shown(name)} was not sent: this channel can't send files yet. It is kept in the outbox.)"
    sent.append(copy)
    return None


def _shown(name: str) -> str:
    return session_files.safe_name(name.rpartition("/")[2])


def _with_preview(text: str, place: FilePlace, sent: list[Path]) -> tuple[str, list[Path]]:
    if len(text) <= LONGEST_TEXT:
        return text, sent
    try:
        path = session_files.new_file(place.target, _FULL_TEXT, text.encode("utf-8", "replace"))
    except OSError:
        log.exception("answer.file_not_written", session=place.session)
        return text, sent
    return text[:LONGEST_TEXT] + _NOTE, [*sent, path]
