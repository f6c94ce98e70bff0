"""What people and platforms wrote, made safe to store. Escaping for prompts and markup happens where those are made."""

import re

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f]")
_BLANKS = re.compile("[\x00-\x20]+")
_SURROGATES = re.compile("[\ud800-\udfff]")
_MIME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*/[A-Za-z0-9][A-Za-z0-9.+-]*")


def text(value: str) -> str:
    """Without C0 controls (newline and tab stay) and without lone surrogates, which no UTF-8 can hold."""
    return _CONTROLS.sub("", _SURROGATES.sub("\ufffd", value))


def name(value: str) -> str:
    """A display name on one line."""
    return _BLANKS.sub(" ", _SURROGATES.sub("\ufffd", value)).strip()


def file_name(value: str) -> str:
    """A file's last path component, on one line; ``file`` where nothing usable is left."""
    last = re.split(r"[/\\]", text(value).replace("\n", "").replace("\t", " "))[-1].strip()
    return last if last.strip(".") else "file"


def mime(value: str) -> str | None:
    """The ``type/subtype`` at the start, or None."""
    found = _MIME.match(value)
    return found[0].lower() if found else None
