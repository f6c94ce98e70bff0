"""The batch as text, and the way back.

Bodies are escaped, so that no text can forge a message, a sender or a tag. An agent may repeat its prompt, and nobody
should see our tags around the bodies: ``unwrapped`` removes them from what an agent says.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import escape, quoteattr, unescape
from zoneinfo import ZoneInfo

from shared.core import ids

if TYPE_CHECKING:  # functions without agents import this module too
    from shared.agents.base import NamedFile, TurnMessage

_ELEMENTS = {"task": "task", "webhook": "webhook", "system": "system_response"}


def build(messages: "Iterable[TurnMessage]", *, timezone: str) -> str:
    """The prompt: a ``<context>`` line, then one element for each message, in order of time.

    The attributes are ids, senders and times, and the effect of a message on an earlier one: ``edits``, ``deletes``,
    ``reacts_to``. Platform, chat and session never appear.
    """
    zone = ZoneInfo(timezone)
    lines = [f"<context timezone={quoteattr(timezone)}/>"]
    lines += [_element(message, zone) for message in messages]
    return "\n".join(lines)


def of_running_turn(message: "TurnMessage", *, timezone: str) -> str:
    """The text for a running turn: the element of *message*, as in a prompt."""
    return _element(message, ZoneInfo(timezone))


def _element(message: "TurnMessage", zone: ZoneInfo) -> str:
    name = _ELEMENTS.get(message.kind, "message")
    facts = {
        "id": message.message_id,
        "sender": message.sender,
        "from": message.from_agent,
        "time": datetime.fromtimestamp(message.at_ms / 1000, zone).isoformat(timespec="seconds"),
        "reply_to": message.reply_to,
        **({message.about[0]: message.about[1]} if message.about else {}),
    }
    attributes = "".join(f" {key}={quoteattr(value)}" for key, value in facts.items() if value)
    files = "".join(map(_attachment, message.files))
    return f"<{name}{attributes}>{escape(message.text)}{files}</{name}>"


def _attachment(file: "NamedFile") -> str:
    """One line, whose values are all escaped: no text can forge a file."""
    facts = {
        "kind": file.kind,
        "name": file.name,
        "path": file.path,
        "type": file.media_type,
        "bytes": None if file.size is None else str(file.size),
        "not_here_because": file.why_not,
        "spoken_words": "in the text" if file.has_words else None,
        "no_words_because": file.why_no_words,
        **dict(file.facts),
    }
    return "\n<attachment" + "".join(f" {key}={quoteattr(value)}" for key, value in facts.items() if value) + "/>"


class EarlierMessage(NamedTuple):
    """What was said in the session before. *sender*: None where the agent said it."""

    message_id: str
    sender: str | None
    text: str
    at_ms: int


_EARLIER = "earlier_messages"
_YOU = "you"
_CUT = "… "


def with_history(prompt_text: str, earlier: Sequence[EarlierMessage], *, timezone: str, most: int) -> str:
    """The prompt of a fresh session, after the newest whole messages of the lost session. Pure.

    Args:
        earlier: oldest first; with none of them the prompt stays as it is.
        most: characters of their texts; if the newest message alone is longer, its end.
    """
    if not earlier:
        return prompt_text
    zone = ZoneInfo(timezone)
    kept: list[EarlierMessage] = []
    room = most
    for each in reversed(earlier):
        if len(each.text) > room and kept:
            break
        text = each.text if len(each.text) <= room else _CUT + each.text[-room:]
        kept.append(each._replace(text=text))
        room = max(0, room - len(each.text))
    left_out = len(earlier) - len(kept)
    lines = [_earlier(each, zone) for each in reversed(kept)]
    note = "Your own session was lost. This was said in it before; do not answer it again."
    note += f" {left_out} earlier messages are left out." if left_out else ""
    return "\n".join([f"<{_EARLIER} note={quoteattr(note)}>", *lines, f"</{_EARLIER}>", prompt_text])


def _earlier(said: EarlierMessage, zone: ZoneInfo) -> str:
    from shared.agents.base import TurnMessage  # late: see above

    message = TurnMessage(said.message_id, "chat", said.sender or _YOU, said.text, said.at_ms, None, is_context=True)
    return _element(message, zone)


# -- the way back -----------------------------------------------------------------------------------------------------

_NAMES = "message|task|webhook|system_response"
_ABOUT = "edits|deletes|reacts_to"
_VALUE = r"""(?:"[^"<>\n]*"|'[^'<>\n]*')"""
# Our tag in our form: these attributes in this order, and an instant with an offset.
_TAG = (
    rf"<(?P<name>{_NAMES}) id=(?P<id>{_VALUE})(?: sender={_VALUE})?(?: from={_VALUE})?"
    rf' time="\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d"(?: reply_to={_VALUE})?(?: (?:{_ABOUT})={_VALUE})?>'
)
# A body ends at its closing tag; at another element, or the end of the text, where the closing tag is cut off.
_WRAPPED = re.compile(rf"{_TAG}(?P<body>(?:(?!</?(?P=name)\b).)*)(?P<closing></(?P=name)>)?", re.DOTALL)
_ATTACHMENT = re.compile(rf"\n?<attachment kind={_VALUE}(?: \w+={_VALUE})*/>")
_CONTEXT = re.compile(r'<context timezone="[A-Za-z0-9_+/-]+"/>\n?')
_AROUND_EARLIER = re.compile(rf'</?{_EARLIER}(?: note="Your own session was lost\.[^"<>\n]*")?>\n?')
_BEFORE_OURS = re.compile(rf"[\s>|]*{_TAG}")  # also in a quotation
_CUT_OFF = re.compile(rf'(?:<(?:{_NAMES}) id=|<context timezone=)"[^"<>\n]*(?:"[^<>\n]*)?\Z')


def unwrapped(text: str, known: Collection[str] = ()) -> str:
    """What an agent said, without the tags of ``build``; repeated bodies are unescaped too.

    Only our own tags are removed: in our form, and with the id of a message. Other XML stays, in code and outside.

    Args:
        known: the ids of the turn's messages, because the sender of a message may choose its id.
    """
    if "<" not in text:
        return text
    whole = _CUT_OFF.sub("", _AROUND_EARLIER.sub("", text))
    without_context = _CONTEXT.sub(lambda tag: "" if _is_our_context(tag, known) else tag[0], whole)
    return _WRAPPED.sub(lambda element: _body(element) if _is_ours(element, known) else element[0], without_context)


def repeated_elements(text: str, known: Collection[str] = ()) -> list[tuple[int, int]]:
    """The positions of our own elements in what an agent said: these are repeated messages.

    Args:
        known: as in ``unwrapped``.
    """
    if "<" not in text:
        return []
    return [element.span() for element in _WRAPPED.finditer(text) if _is_ours(element, known)]


def _is_ours(tag: re.Match[str], known: Collection[str]) -> bool:
    id_ = unescape(tag["id"][1:-1], {"&quot;": '"'})
    return id_ in known or ids.has_form(id_)


def _body(element: re.Match[str]) -> str:
    body = _ATTACHMENT.sub("", element["body"])
    is_as_sent = element["closing"] is not None and "<" not in body
    return unescape(body) if is_as_sent else body


def _is_our_context(tag: re.Match[str], known: Collection[str]) -> bool:
    """Whether one of our messages follows the tag, or it is a line of its own, and not of a block of code."""
    text = tag.string
    following = _BEFORE_OURS.match(text, tag.end())
    if following is not None and _is_ours(following, known):
        return True
    is_line = (tag.start() == 0 or text[tag.start() - 1] == "\n") and (tag[0][-1] == "\n" or tag.end() == len(text))
    return is_line and text.count("```", 0, tag.start()) % 2 == 0
