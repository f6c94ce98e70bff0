"""The forms (modals) that we open: what they look like, and what their ids say when a person sends them.

A form is the first answer to a press or a command, within three seconds, so no agent decides on it.

Source: https://docs.discord.com/developers/interactions/receiving-and-responding#interaction-response-object-modal,
https://docs.discord.com/developers/components/reference#label.
"""

import re
from typing import Any

from shared.channels import sanitize

REPLY = "postroom:reply"  # the custom_id of the button, and of the form that it opens

_ABOUT = "postroom:about"
_LONGEST_NAME = 32  # of a person; a custom_id has at most 100 characters
_LONGEST_TEXT = 4000
_MOST_FILES = 10
_SUBJECT = re.compile(rf"{_ABOUT}:([0-9]{{1,20}}):(.*)", re.DOTALL)


def reply() -> dict[str, Any]:
    """The form behind a Reply button."""
    return _form(REPLY, "Reply", "Your message")


def about(user_id: str, name: str) -> dict[str, Any]:
    """The form of a command on a person; its id carries the person."""
    short = name[:_LONGEST_NAME]
    return _form(f"{_ABOUT}:{user_id}:{short}", "Ask about a person", f"Your question about {short}"[:45])


def with_subject(custom_id: str, text: str) -> str:
    """The text of a sent form, with the person whom it is about."""
    found = _SUBJECT.fullmatch(custom_id)
    if found is None or not text:
        return text
    return f"About {sanitize.name(found[2]) or found[1]} (<@{found[1]}>): {text}"


def _form(custom_id: str, title: str, label: str) -> dict[str, Any]:
    text = {"type": 4, "custom_id": "text", "style": 2, "max_length": _LONGEST_TEXT, "required": True}
    files = {"type": 19, "custom_id": "files", "min_values": 0, "max_values": _MOST_FILES, "required": False}
    rows = [{"type": 18, "label": label, "component": text}, {"type": 18, "label": "Files", "component": files}]
    return {"type": 9, "data": {"custom_id": custom_id, "title": title, "components": rows}}
