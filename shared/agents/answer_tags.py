"""The tags with which an agent sends a part of its answer elsewhere::

    <message to="name">text</message>      to a named destination of the agent
    [@bob: text]   [@bob, eve: text]       to teammates
    [@bob within 30m: text]                to one that is to answer by then
    [#team: text]                          to the room of a team
    [send_file: report.pdf]                a file of the session's own outbox: it goes where the answer goes, and in the
                                           text of another tag where that text goes

A tag that is not closed, stands in code, or names nothing is text. So is a tag that the agent repeats: text from
outside must not act (P10), so what stands word for word in a message of the turn does nothing when the agent says it
again. A person can still ask an agent to write to somebody; then the agent does it in its own words, or by its tools,
as far as it may.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from shared.agents import code_parts
from shared.agents.code_parts import Ranges
from shared.core.time import durations

_OPENING = re.compile(r"\[(?=[@#s])|<message\b")
_MESSAGE = re.compile(r"""<message\s+to\s*=\s*(?P<quote>["'])(?P<name>[^"'<>\n]{1,200})(?P=quote)\s*>""")
_MESSAGE_END = re.compile(r"</message\s*>")
_BRACKET = re.compile(r"\[(?P<kind>[@#])(?P<names>[^\[\]:\n]{1,400}):")
_FILE = re.compile(r"\[send_file:[ \t]*(?P<path>[^\]\n]{1,1000})\]")
_WITHIN = re.compile(r"\s+within\s+(?P<count>[1-9][0-9]{0,3}) ?(?P<unit>s|m|min|h)\s*$")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_BRACKETS = re.compile(r"[\[\]]")
_SPACE = re.compile(r"\s+")
_BLANKS = re.compile(r"[ \t]*\n(?:[ \t]*\n){2,}")


class ToDestination(NamedTuple):
    """A text for a named destination of the agent, with files of the outbox."""

    name: str
    text: str
    files: tuple[str, ...] = ()


class ToTeammates(NamedTuple):
    """A text for teammates: their ids or names as the agent wrote them, each once; with files of the outbox.

    Attributes:
        within_ms: how long each has for an answer; None: as long as it takes.
    """

    names: tuple[str, ...]
    text: str
    files: tuple[str, ...] = ()
    within_ms: int | None = None


class ToTeam(NamedTuple):
    """A text for the room of a team, with files of the outbox."""

    team: str
    text: str
    files: tuple[str, ...] = ()


class SendFile(NamedTuple):
    """A file of the outbox, by the path that the agent wrote."""

    path: str


HandOff = ToDestination | ToTeammates | ToTeam
AnswerTag = HandOff | SendFile


class ReadAnswer(NamedTuple):
    """An answer without its tags, and the tags in their order."""

    text: str
    tags: tuple[AnswerTag, ...] = ()


class _Found(NamedTuple):
    tag: AnswerTag
    start: int
    end: int
    source: str  # what must not stand in a message of the turn


def read(text: str, heard: Iterable[str] = (), quiet: Ranges = ()) -> ReadAnswer:
    """Take the tags out of an agent's answer. Pure.

    Args:
        heard: the texts of the turn's messages, quotations too.
        quiet: where the agent repeats messages in our own elements: what stands there is text.
    """
    if "[" not in text and "<message" not in text:
        return ReadAnswer(text)
    code = code_parts.merged(code_parts.all_of(text), quiet)
    found = _tags(text, [_plain(each) for each in heard], code)
    if not found:
        return ReadAnswer(text)
    ends = [0, *(each.end for each in found)]
    starts = [*(each.start for each in found), len(text)]
    rest = "".join(text[start:end] for start, end in zip(ends, starts, strict=True))
    return ReadAnswer(_BLANKS.sub("\n\n", rest).strip(), tuple(each.tag for each in found))


def _tags(text: str, heard: Sequence[str], code: Ranges) -> list[_Found]:
    pairs = _pairs(text)
    last_end = max((end.start() for end in _MESSAGE_END.finditer(text)), default=-1)
    found: list[_Found] = []
    place = 0
    for opening in _OPENING.finditer(text):
        start = opening.start()
        if start < place or code_parts.has(code, start):
            continue
        tag = _tag(text, start, pairs, last_end)
        if tag is not None and not _is_repeated(tag.source, heard):
            found.append(tag._replace(tag=_with_files(tag.tag, heard)))
        place = start if tag is None else tag.end
    return found


def _pairs(text: str) -> dict[int, int]:
    """The place of the bracket that closes each bracket, by the place of that one."""
    pairs: dict[int, int] = {}
    open_: list[int] = []
    for bracket in _BRACKETS.finditer(text):
        if bracket[0] == "[":
            open_.append(bracket.start())
        elif open_:
            pairs[open_.pop()] = bracket.start()
    return pairs


def _is_repeated(source: str, heard: Sequence[str]) -> bool:
    return any(_plain(source) in each for each in heard)


def _with_files(tag: AnswerTag, heard: Sequence[str]) -> AnswerTag:
    """The tag with the files that its text names, which are then no part of the text."""
    if isinstance(tag, SendFile):
        return tag
    body = tag.text
    code = code_parts.merged(code_parts.all_of(body))
    found = [
        each
        for each in _FILE.finditer(body)
        if not (code_parts.has(code, each.start()) or _is_repeated(each[0], heard))
    ]
    for each in reversed(found):
        body = body[: each.start()] + body[each.end() :]
    return tag._replace(text=_BLANKS.sub("\n\n", body).strip(), files=tuple(each["path"].strip() for each in found))


def _plain(text: str) -> str:
    return _SPACE.sub(" ", text).strip().lower()


def _tag(text: str, start: int, pairs: Mapping[int, int], last_end: int) -> _Found | None:
    if text[start] == "<":
        return _message(text, start) if start < last_end else None
    file = _FILE.match(text, start)
    if file is not None:
        return _Found(SendFile(file["path"].strip()), start, file.end(), file[0])
    return _bracket(text, start, pairs.get(start))


def _message(text: str, start: int) -> _Found | None:
    opening = _MESSAGE.match(text, start)
    closing = None if opening is None else _MESSAGE_END.search(text, opening.end())
    if opening is None or closing is None:
        return None
    body = text[opening.end() : closing.start()].strip()
    if not body:
        return None
    # The opening alone counts as repeated: a person's text must not choose where an agent's words go.
    return _Found(ToDestination(opening["name"].strip(), body), start, closing.end(), opening[0])


def _bracket(text: str, start: int, end: int | None) -> _Found | None:
    opening = _BRACKET.match(text, start)
    if opening is None or end is None:
        return None
    within = _WITHIN.search(opening["names"]) if opening["kind"] == "@" else None
    called = opening["names"] if within is None else opening["names"][: within.start()]
    names = tuple(dict.fromkeys(name.strip().removeprefix("@") for name in called.split(",")))
    body = text[opening.end() : end].strip()
    if not body or not all(map(_NAME.fullmatch, names)):
        return None
    if opening["kind"] == "@":
        within_ms = None if within is None else durations.parse_ms(f"{int(within['count'])}{within['unit'][0]}")
        tag: AnswerTag = ToTeammates(names, body, within_ms=within_ms)
    elif len(names) == 1:
        tag = ToTeam(names[0], body)
    else:
        return None
    return _Found(tag, start, end + 1, text[start : end + 1])
