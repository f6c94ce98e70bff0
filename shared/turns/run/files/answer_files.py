"""The files of an answer: those that the agent sends from its outbox, and a long text as a file with a preview.

A client that fetches its answers over REST gets the files' paths with them, and a long text as a file. A channel gets
the files that it can send; long texts go out in pages there. Whatever is not sent is told, to the person and the agent.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import apsw

from shared.agents import session_files
from shared.agents.session_files import NotSendable
from shared.channels import outgoing_files, part_plan, registry
from shared.channels.base import OutgoingFile
from shared.core import logs
from shared.db.queue.message_row import Message
from shared.queue import endings
from shared.queue.teamwork import mailbox
from shared.turns.tools.outbox_files import FOR_AGENTS, FilePlace, FileTaker, copy_file

log = logs.get()

LONGEST_TEXT = 4000  # characters, where files can be sent
MOST_FILES = 20  # of one answer

_FULL_TEXT = "response.md"
_NOTE = "\n\n_(The full answer is attached as a file.)_"


class Attached(NamedTuple):
    """An answer as it goes out. *problems*: the sentences in the text about files that are not sent."""

    text: str
    files: tuple[OutgoingFile, ...]
    problems: tuple[str, ...]


class Copied(NamedTuple):
    """Copies of files of the outbox, by the names that the agent gave, and a sentence about each of the others."""

    files: Mapping[str, OutgoingFile]
    notes: tuple[str, ...]


def copy_all(wanted: Sequence[str], place: FilePlace, taker: FileTaker) -> Copied:
    """Copy the files that the agent names, as many as one answer may have. Reads and writes files: not for the loop."""
    files: dict[str, OutgoingFile] = {}
    notes: list[str] = []
    for name in wanted[:MOST_FILES]:
        try:
            files[name] = copy_file(name, place, taker)
        except NotSendable as error:
            notes.append(part_plan.told(_shown(name), str(error)))
    if len(wanted) > MOST_FILES:
        notes.append(f"({len(wanted) - MOST_FILES} more files were not sent: {MOST_FILES} is the most.)")
    return Copied(files, tuple(notes))


def attach(text: str, wanted: Sequence[str], place: FilePlace, taker: FileTaker) -> Attached:
    """The answer with copies of its files. Reads and writes files: not for the loop.

    Args:
        wanted: the files that the agent sends, as it named them.
    """
    copied = copy_all(list(dict.fromkeys(wanted)), place, taker)
    sent, notes = list(copied.files.values()), copied.notes
    text = "\n\n".join(filter(None, [text, *notes]))
    if taker.is_fetched:
        text, sent = _with_preview(text, place, sent)
    return Attached(text, tuple(sent), notes)


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


def taker_of(reader: apsw.Connection, asked: Message) -> FileTaker:
    """What the person who gets the answer to *asked* can be given, or the agents; nothing where nobody reads it."""
    person = mailbox.person_of(asked)
    if person is None:
        return FOR_AGENTS if mailbox.agent_reads(reader, asked) else FileTaker()
    is_fetched = endings.is_waited_for(reader, person)
    is_sent = person.chat_id is not None and not is_fetched
    return FileTaker(is_fetched, registry.traits(person.channel).files if is_sent else None)
