"""The batch as text. Bodies are escaped, so that no text can forge a message, a sender or a tag."""

from collections.abc import Iterable
from datetime import datetime
from xml.sax.saxutils import escape, quoteattr
from zoneinfo import ZoneInfo

from shared.agents.base import TurnMessage

_ELEMENTS = {"task": "task", "webhook": "webhook", "system": "system_response"}


def build(messages: Iterable[TurnMessage], *, timezone: str) -> str:
    """The prompt: a ``<context>`` line, then one element for each message, in order of time.

    Ids, senders and times are attributes. Platform, chat and session never appear.
    """
    zone = ZoneInfo(timezone)
    lines = [f"<context timezone={quoteattr(timezone)}/>"]
    lines += [_element(message, zone) for message in messages]
    return "\n".join(lines)


def _element(message: TurnMessage, zone: ZoneInfo) -> str:
    name = _ELEMENTS.get(message.kind, "message")
    facts = {
        "id": message.message_id,
        "sender": message.sender,
        "from": message.from_agent,
        "time": datetime.fromtimestamp(message.at_ms / 1000, zone).isoformat(timespec="seconds"),
        "reply_to": message.reply_to,
    }
    attributes = "".join(f" {key}={quoteattr(value)}" for key, value in facts.items() if value)
    return f"<{name}{attributes}>{escape(message.text)}</{name}>"
