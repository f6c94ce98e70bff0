"""What must be true of the files that people send: each is in one message, and arrives whole at its agent."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from shared.queue.turns import APOLOGY, CUT_OFF
from tests.simulation.machine.seams import BEGAN_MS
from tests.simulation.parts import Query
from tests.simulation.platforms.base import Platform
from tests.simulation.platforms.messages import SentFile, Written, name_in

_TOGETHER_S = 0.9  # pieces of an album that come so close are one message: a channel waits for a second
_MENTION = r"^(<@\d+>|@\w+) "  # of the bot, in a group
_BOXES = ("inbox", "outbox")
_FOLDER = Path("agents")  # of all agents


def check(query: Query, platforms: Sequence[Platform], *, is_clock_steady: bool) -> list[str]:
    """All that is wrong with files, and with the messages that have some."""
    events = [each for platform in platforms for each in platform.written.values() if each.files]
    by_file = {file.name: each for each in events for file in each.files}
    rows = query("SELECT message_id, message, status, files FROM messages WHERE kind = 'chat' AND files != '[]'")
    messages = {id_: [_name(each) for each in json.loads(files)] for id_, _, _, files in rows}
    stored = Counter(name for names in messages.values() for name in names)
    problems = [
        *(f"the file {name!r} was accepted, and {stored[name]} messages have it" for name, each in by_file.items()
          if each.accepted and stored[name] != 1),
        *(f"{count} messages have the file {name!r}" for name, count in stored.items() if count > 1),
        *(f"nobody sent the file {name!r}" for name in stored if name not in by_file),
    ]  # fmt: skip
    if problems:
        return problems
    for id_, names in messages.items():
        if names != sorted(names) or len({name.rpartition("f")[0] for name in names}) > 1:
            problems.append(f"message {id_} has the files {names}")
    if is_clock_steady:
        problems += _albums(events, messages)
    problems += _deleted(query, platforms, rows, messages, is_clock_steady=is_clock_steady)
    return [*problems, *_answered(query, rows, messages, by_file), *_whole(platforms)]


def _deleted(
    query: Query,
    platforms: Sequence[Platform],
    rows: Sequence[tuple[str, str, str, str]],
    messages: Mapping[str, list[str]],
    *,
    is_clock_steady: bool,
) -> Iterator[str]:
    """What is cancelled was deleted; what was deleted before a turn took it is answered by nobody."""
    deleted = {key: told for each in platforms for key, told in each.deleted.items()}
    begun: dict[str, int] = {}
    for at_ms, data in query("SELECT created_at, data FROM events WHERE type = 'chain_step_start' ORDER BY id DESC"):
        begun |= dict.fromkeys(json.loads(data)["batch"], at_ms)
    for id_, _, status, _ in rows:
        told = deleted.get(f"file {messages[id_][0]}")
        if status == "cancelled" and told is None:
            yield f"message {id_} of {messages[id_]} is cancelled, and nobody deleted it"
        elif is_clock_steady and told is not None and told.accepted:
            late_ms = begun.get(id_, 0) - BEGAN_MS - int(told.answered_s * 1000)
            if late_ms > 0:
                yield f"message {id_} of {messages[id_]} was deleted, and a turn took it {late_ms} ms later"


def _name(attachment: Mapping[str, str]) -> str:
    """Of the file, as its platform knows it."""
    return attachment.get("file_id") or attachment["url"].rpartition("/")[2]


def _albums(events: Sequence[Written], messages: Mapping[str, list[str]]) -> Iterator[str]:
    """An album whose pieces came one close after the other, each at its first attempt, is one message."""
    albums: dict[str, list[Written]] = defaultdict(list)
    for each in events:
        if each.album:
            albums[each.album].append(each)
    for pieces in albums.values():
        gaps = [after.answered_s - before.began_s for before, after in pairwise(pieces)]
        names = [piece.files[0].name for piece in pieces]
        at_once = all(piece.accepted and 200 <= piece.statuses[0] < 300 for piece in pieces)
        if at_once and max(gaps) < _TOGETHER_S and names not in messages.values():
            yield f"the album {names} is no message, but {[each for each in messages.values() if each[0] in names]}"


def _answered(
    query: Query,
    rows: Sequence[tuple[str, str, str, str]],
    messages: Mapping[str, list[str]],
    by_file: Mapping[str, Written],
) -> Iterator[str]:
    """What was sent is named in the answer, or the first of it is sent back; nothing is said twice."""
    said: dict[str, list[str]] = defaultdict(list)
    in_words = "status != 'deleted' AND files = '[]'"  # a file is sent for the first message of its turn
    for id_, text in query(f"SELECT message_id, message FROM responses WHERE {in_words} ORDER BY id"):
        said[id_].append(text)
    sent_back = query("SELECT message_id, files FROM responses WHERE files != '[]'")
    back, spoken = Counter(files for _, files in sent_back), {id_ for id_, _ in sent_back}
    yield from (f"{count} responses have the files {files}" for files, count in back.items() if count > 1)
    for id_, text, status, _ in rows:
        got, names = said[id_], messages[id_]
        words = re.sub(_MENTION, "", text)
        if words not in {by_file[name].text for name in names}:
            yield f"message {id_} of {names} says {text!r}"
        elif status == "cancelled" and got:
            yield f"message {id_} of {names} is cancelled, and its sender got {got}"
        elif status == "dead" and got != [CUT_OFF if id_ in spoken else APOLOGY]:
            yield f"message {id_} of {names} is dead, and its sender got {got}"
        elif status == "completed" and words != "!file":
            begins = "You said: " + re.escape(text) + r"\nYou sent: " if text else "You sent: "
            pattern = begins + ", ".join(r"\w+ [^\s,]+( \(.*\))?" for _ in names)
            if len(got) != 1 or not re.fullmatch(pattern, got[0]):
                yield f"message {id_} of {names} is completed with the answers {got}"
        elif status == "completed":
            yield from (f"message {id_} of {names} got {each!r} twice" for each in set(got) if got.count(each) > 1)


def _whole(platforms: Sequence[Platform]) -> Iterator[str]:
    """What is in the boxes of the agents' sessions was sent, and is as it was sent."""
    sent: dict[str, SentFile] = {name: file for each in platforms for name, file in each.files.items()}
    for path in sorted(_FOLDER.rglob("*")):
        if path.is_file() and any(box in path.parts for box in _BOXES):
            content = path.read_bytes()
            found = sent.get(name_in(content))
            if found is None or found.content != content:
                yield f"the file {path} has {len(content)} bytes, and nobody sent them"
