"""Makes text from people and platforms safe to store. The code that builds prompts and markup does the escaping."""

import re

from shared.core.text import half_characters

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f]")
_BLANKS = re.compile("[\x00-\x20]+")
_MIME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*/[A-Za-z0-9][A-Za-z0-9.+-]*")


def text(value: str) -> str:
    """*value* without C0 controls (newline and tab stay) and without half characters, which UTF-8 can't hold."""
    return _CONTROLS.sub("", half_characters.mend(value))


def name(value: str) -> str:
    """*value* as a display name on one line."""
    return _BLANKS.sub(" ", half_characters.mend(value)).strip()


def file_name(value: str) -> str:
    """The last path component of *value*, on one line; ``file`` where nothing usable remains."""
    last = re.split(r"[/\\]", text(value).replace("\n", "").replace("\t", " "))[-1].strip()
    return last if last.strip(".") else "file"


def mime(value: str) -> str | None:
    """The ``type/subtype`` at the start of *value*, or None."""
    found = _MIME.match(value)
    return found[0].lower() if found else None
