"""The text of an approval's card, before and after the decision. Markdown, for any channel; pure.

Text from outside is escaped, put on one line and cut: it can neither look like our words nor hide what follows.
"""

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from shared.db.access.approvals import Approval

LONGEST_NAME = 60
LONGEST_VALUE = 20_000
LONGEST_TITLE = 300
PREVIEW = 200

_MARKUP = re.compile(r"([!-/:-@\[-`{-~])")
_FENCES = re.compile("`+")
_UNSEEN = ("Cc", "Cf", "Zl", "Zp")  # controls, marks that change the direction of text, line and paragraph separators


def cut(text: str, most: int) -> str:
    """*text*, or its beginning and how many characters are missing."""
    if len(text) <= most:
        return text
    return f"{text[:most]}… (+{len(text) - most:,} characters)"


def line(text: str, most: int = LONGEST_TITLE) -> str:
    """*text* on one line, without invisible characters, and cut."""
    seen = "".join(" " if unicodedata.category(each) in _UNSEEN else each for each in text)
    return cut(" ".join(seen.split()), most)


def escape(text: str) -> str:
    """*text*, escaped so that Markdown shows every character as it is."""
    return _MARKUP.sub(r"\\\1", text)


def block(text: str) -> str:
    """*text* as a code block that the text itself can't end."""
    longest = max((len(run) for run in _FENCES.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def arguments(given: Mapping[str, Any]) -> str:
    """One line for each argument: its name and its value, as JSON without invisible characters.

    A text of several lines is shown as such: each line below the name, behind a bar.
    """
    return "\n".join(
        f"{cut(_whole(name), LONGEST_NAME)}: {cut(_whole(value), LONGEST_VALUE)}" for name, value in given.items()
    )


def _whole(value: Any) -> str:
    if isinstance(value, str) and "\n" in value:
        lines = value.replace("\\", "\\\\").split("\n")
        return "\n  | ".join(["", *("".join(map(_visible, each)) for each in lines)])
    return "".join(map(_visible, json.dumps(value, ensure_ascii=False)))


def _visible(each: str) -> str:
    return f"\\u{ord(each):04x}" if unicodedata.category(each) in _UNSEEN else each


def is_cut(given: Mapping[str, Any]) -> bool:
    """Whether ``arguments`` cuts anything."""
    return any(len(_whole(name)) > LONGEST_NAME or len(_whole(value)) > LONGEST_VALUE for name, value in given.items())


def question(approval: Approval, said: Sequence[str] = ()) -> str:
    """The card that asks for the decision.

    Args:
        said: the texts that are held for the approval, oldest first; the card shows the first.
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
    if facts := approval.payload.get("facts"):
        parts += ["As it is now:", block(arguments(facts))]
    if (covered := approval.payload.get("covers")) is not None:
        parts += ["To allow it always covers, in this chat:", block(arguments(covered))]
    if why := line(str(approval.payload.get("why", "")), PREVIEW):
        parts += ["It says why:", block(why)]
    parts.append(f"Until {when(approval.expires_at)}. {escape(approval.approval_id)}")
    return "\n\n".join(parts)


def closed(approval: Approval, outcome: str) -> str:
    """The card after the decision: the question, and its outcome."""
    return f"{escape(line(approval.title))}\n\n**{escape(line(outcome))}**"


def when(at_ms: int) -> str:
    """The instant in words, in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%d %b %Y %H:%M UTC")
