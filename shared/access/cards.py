"""What people read who are asked for a yes or no, and when it is decided. Markdown, for any channel; pure.

Whatever somebody else wrote is escaped, on one line and cut: it can neither look like our words nor hide what follows.
"""

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from shared.db.access.approvals import Approval

LONGEST_NAME = 60
LONGEST_VALUE = 300
LONGEST_TITLE = 300
PREVIEW = 200

_MARKUP = re.compile(r"([!-/:-@\[-`{-~])")
_FENCES = re.compile("`+")
_UNSEEN = ("Cc", "Cf", "Zl", "Zp")  # controls, what turns the direction of text, line and paragraph separators


def cut(text: str, most: int) -> str:
    """*text*, or its beginning and how much is missing."""
    if len(text) <= most:
        return text
    return f"{text[:most]}… (+{len(text) - most:,} characters)"


def line(text: str, most: int = LONGEST_TITLE) -> str:
    """*text* on one line, without anything that is not seen, and cut."""
    seen = "".join(" " if unicodedata.category(each) in _UNSEEN else each for each in text)
    return cut(" ".join(seen.split()), most)


def escape(text: str) -> str:
    """*text* so that Markdown shows each of its characters, and does nothing else with them."""
    return _MARKUP.sub(r"\\\1", text)


def block(text: str) -> str:
    """*text* as a block of code that it can't end."""
    longest = max((len(run) for run in _FENCES.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def arguments(given: Mapping[str, Any]) -> str:
    """Every argument on a line of its own: its name and its value as JSON, in which nothing is invisible."""
    return "\n".join(
        f"{_json_line(name, LONGEST_NAME)}: {_json_line(value, LONGEST_VALUE)}" for name, value in given.items()
    )


def _json_line(value: Any, most: int) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return cut("".join(_visible(each) for each in text), most)


def _visible(each: str) -> str:
    return f"\\u{ord(each):04x}" if unicodedata.category(each) in _UNSEEN else each


def is_cut(given: Mapping[str, Any]) -> bool:
    """Whether ``arguments`` leaves something out."""
    return any(
        len(_json_line(name, 10**9)) > LONGEST_NAME or len(_json_line(value, 10**9)) > LONGEST_VALUE
        for name, value in given.items()
    )


def asking(approval: Approval, said: Sequence[str] = ()) -> str:
    """The card that asks.

    Args:
        said: what the people wrote who wait for it, oldest first; the first is shown.
    """
    parts = [f"**{escape(line(approval.title))}**"]
    if said and said[0]:
        more = f" (and {len(said) - 1} more)" if len(said) > 1 else ""
        parts += [f"They wrote{more}:", block(line(said[0], PREVIEW))]
    given = approval.payload.get("arguments")
    if given is not None:
        parts.append(block(arguments(given) or "(no arguments)"))
        if is_cut(given):
            parts.append(f"Something is cut. All of it: `emulator approvals show {approval.approval_id}`")
    if why := line(str(approval.payload.get("why", "")), PREVIEW):
        parts += ["It says why:", block(why)]
    parts.append(f"Until {when(approval.expires_at)}. {escape(approval.approval_id)}")
    return "\n\n".join(parts)


def decided(approval: Approval, outcome: str) -> str:
    """What the card is changed into: what was asked, and what came of it."""
    return f"{escape(line(approval.title))}\n\n**{escape(line(outcome))}**"


def when(at_ms: int) -> str:
    """An instant for people."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%d %b %Y %H:%M UTC")
