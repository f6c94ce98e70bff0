"""Markdown that stays markdown, for a platform that draws it: its tables as code, and cut to the limit."""

import re
from collections.abc import Iterator, Sequence

from shared.channels.markdown.cutting import ChunkLimit, cut_at, fitting
from shared.channels.markdown.parsing import parse, tokens_of
from shared.channels.markdown.runs import Run, plain, units

_FENCE = re.compile(r"^\s*(?:>\s*)*(`{3,20}(?!`)|~{3,20}(?!~))([^`]*)$")
_LONGEST_FENCE = 90  # UTF-16 units to close a code block and open it again


def tables_as_code(text: str) -> str:
    """The same markdown with top-level tables as code blocks, for platforms that draw no tables."""
    lines = text.split("\n")
    for token in reversed([token for token in tokens_of(text) if token.type == "table_open" and not token.level]):
        start, end = token.map or (0, 0)
        source = "\n".join(lines[start:end])
        drawn = "\n".join(plain(block.runs) for block in parse(source))
        lines[start:end] = ["```", drawn.replace("```", "'''"), "```"]
    return "\n".join(lines)


def split_source(text: str, limit: int) -> Iterator[str]:
    """Markdown in pieces of at most *limit* UTF-16 units. A cut code block is closed and opened again."""
    held: list[str] = []
    fence = ""  # the opening line of the current code block
    for line in _short_lines(text, limit - _LONGEST_FENCE):
        while held and held != [fence] and units("\n".join([*held, line, _closing(fence)])) > limit:
            keep = len(held) if fence else _last_blank(held)
            yield from _nonempty([*held[:keep], _closing(fence)])
            held = [fence] if fence else held[keep:]
        fence = _fence_after(fence, line)
        held.append(line)
    yield from _nonempty([*held, _closing(fence)])


def _nonempty(lines: Sequence[str]) -> Iterator[str]:
    piece = "\n".join(lines)
    if piece.strip():
        yield piece.strip("\n").rstrip()


def _short_lines(text: str, limit: int) -> Iterator[str]:
    for line in text.split("\n"):
        rest = line
        while units(rest) > limit:
            end = cut_at(rest, fitting([Run(rest)], ChunkLimit(limit, limit * 4, lambda _: 0)))
            yield rest[:end]
            rest = rest[end:]
        yield rest


def _last_blank(lines: Sequence[str]) -> int:
    """Where the last paragraph of the second half begins outside code, else the end."""
    fence = ""
    best = len(lines)
    for index, line in enumerate(lines):
        fence = _fence_after(fence, line)
        if not line.strip() and not fence and index > len(lines) // 2:
            best = index + 1
    return best


def _fence_after(fence: str, line: str) -> str:
    found = _FENCE.match(line)
    if not found:
        return fence
    if not fence:
        return line[:60]
    mark = _closing(fence)
    return "" if found[1].startswith(mark.strip()) and not found[2].strip() else fence


def _closing(fence: str) -> str:
    found = _FENCE.match(fence)
    return found[1] if found else ""
