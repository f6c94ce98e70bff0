"""Markdown to runs of styled text, cut to a platform's limit.

The text is parsed once into blocks of runs. A run is text with its styles, outermost first. A cut between or inside
runs therefore can't break markup: every chunk opens and closes its own, and a cut code block opens again with its
language. The best place to cut is between blocks, then at a line, a sentence, a word. A cut inside an emoji is the last
resort.

Grammar: https://spec.commonmark.org, with tables and strikethrough. Raw HTML and link definitions stay text.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

Style = tuple[str, str]
"""A name of ``b i s code pre quote link``, and its argument: the language of a ``pre``, the address of a ``link``."""

_LONGEST_LINK = 2048
_DEEPEST = 50
_INLINE_STYLES = {"strong": "b", "em": "i", "s": "s"}
_LANGUAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+#_.-]{0,31}")
_FENCE = re.compile(r"^\s*(?:>\s*)*(`{3,20}(?!`)|~{3,20}(?!~))([^`]*)$")
_LONGEST_FENCE = 90  # UTF-16 units to close a code block and open it again
_BREAKS = (r"\n", "[.!?\u2026][\"')\\]]*\\s|[\u3002\uff01\uff1f]", r"\s")
_WEB_ADDRESS = re.compile(r"https?://([A-Za-z0-9_-]+\.)+[A-Za-z0-9-]+(:(?P<port>[0-9]{1,5}))?(?=[/?#]|$)")
_APP_ADDRESS = re.compile(r"tg://[A-Za-z0-9_-]+(?=[/?]|$)")
_PARSER = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST}).enable(["table", "strikethrough"])
_PARSER.disable("reference")


class Run(NamedTuple):
    """Text in one style."""

    text: str
    styles: tuple[Style, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """Runs to keep together, and the blank space before them."""

    runs: tuple[Run, ...]
    gap: str = "\n\n"


def units(text: str) -> int:
    """UTF-16 code units: an upper bound for the count of every platform."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def plain(runs: Sequence[Run]) -> str:
    """The text of *runs* without styles."""
    return "".join(run.text for run in runs)


def with_addresses(runs: Sequence[Run]) -> str:
    """The text of *runs* without styles, and after each link its address: what is left where markup is refused."""
    pieces = []
    for address, group in groupby(runs, key=_address):
        text = plain(list(group))
        is_hidden = address and address.removeprefix("mailto:") != text.strip()
        pieces.append(f"{text} ({address})" if is_hidden else text)
    return "".join(pieces)


def _address(run: Run) -> str:
    return next((argument for name, argument in run.styles if name == "link"), "")


# -- parse ------------------------------------------------------------------------------------------------------------


def parse(text: str) -> tuple[Block, ...]:
    """The blocks of a markdown text, in order.

    A text of nothing but markup, or with deeper nesting than the parser follows, comes back unparsed.
    """
    tokens = _PARSER.parse(text)
    is_too_deep = any(token.level >= _DEEPEST - 1 for token in tokens)  # the parser skips deeper content
    blocks = () if is_too_deep else tuple(block for block in _BlockBuilder(tokens).blocks if plain(block.runs).strip())
    return blocks or (Block((Run(text),)),)


class _BlockBuilder:
    """Walks the tokens once; tracks open quotes and lists."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.blocks: list[Block] = []
        self._quotes = 0
        self._depth = 0
        self._marker = ""
        self._gap = "\n\n"
        self._heading = False
        self._rows: list[list[str]] | None = None
        for token in tokens:
            self._read(token)

    def _read(self, token: Token) -> None:  # noqa: C901  (one case for each kind of token)
        match token.type:
            case "inline" if self._rows is not None:
                self._rows[-1].append(with_addresses(_inline(token)).replace("\n", " "))  # drawn as code: no links
            case "inline":
                self._add(_inline(token, (("b", ""),) if self._heading else ()))
            case "fence" | "code_block":
                self._add_code(token.content.rstrip("\n"), token.info.strip())
            case "hr":
                self._add([Run("———")])
            case "heading_open" | "heading_close":
                self._heading = token.nesting == 1
            case "blockquote_open" | "blockquote_close":
                self._quotes += token.nesting
            case "bullet_list_open" | "ordered_list_open" | "bullet_list_close" | "ordered_list_close":
                self._depth += token.nesting
                self._gap = "\n" if self._depth > (token.nesting == 1) else "\n\n"
            case "list_item_open":
                self._marker = f"{token.info}{token.markup} " if token.info else "• "
            case "list_item_close" if self._marker:
                self._add([])
            case "table_open":
                self._rows = []
            case "tr_open" if self._rows is not None:
                self._rows.append([])
            case "table_close":
                rows, self._rows = self._rows or [], None
                self._add([Run(table(rows), (("pre", ""),))])

    def _add_code(self, code: str, info: str) -> None:
        if self._marker:
            self._add([])
        language = _LANGUAGE.match(info)
        self._add([Run(code or info, (("pre", language[0] if language and code else ""),))])

    def _add(self, runs: Sequence[Run]) -> None:
        indent = "  " * (self._depth - bool(self._marker))
        lead = [] if _is_code(runs) else [Run(indent + self._marker)]
        quote: tuple[Style, ...] = (("quote", ""),) if self._quotes else ()
        self.blocks.append(
            Block(tuple(Run(text, quote + styles) for text, styles in [*lead, *runs] if text), self._gap)
        )
        self._marker = ""
        self._gap = "\n" if self._depth else "\n\n"


def _is_code(runs: Sequence[Run]) -> bool:
    return any(name == "pre" for run in runs for name, _ in run.styles)


def _inline(token: Token, styles: tuple[Style, ...] = ()) -> list[Run]:
    """The runs of one paragraph's inline tokens."""
    runs: list[Run] = []
    held = list(styles)
    links: list[tuple[str, int]] = []
    for child in token.children or ():
        name = _INLINE_STYLES.get(child.tag)
        if child.type == "link_open":
            links.append((str(child.attrs.get("href", "")), len(runs)))
            held.append(("link", links[-1][0]))
        elif child.type == "link_close":
            held.pop()
            _close_link(runs, *links.pop())
        elif child.type == "image":
            _add_image(runs, child, tuple(held))
        elif name and child.nesting:
            held.append((name, "")) if child.nesting == 1 else held.pop()
        elif child.type in ("softbreak", "hardbreak"):
            runs.append(Run("\n", tuple(held)))
        elif child.content:
            code: tuple[Style, ...] = (("code", ""),) if child.type == "code_inline" else ()
            runs.append(Run(child.content, tuple(dict.fromkeys((*held, *code)))))
    return runs


def _add_image(runs: list[Run], token: Token, styles: tuple[Style, ...]) -> None:
    start, href = len(runs), str(token.attrs.get("src", ""))
    runs.append(Run(token.content or href, (*styles, ("link", href))))
    _close_link(runs, href, start)


def _close_link(runs: list[Run], href: str, start: int) -> None:
    """Show the address of a link that has no text, or whose address platforms do not accept."""
    if is_linkable(href) and plain(runs[start:]).strip():
        return
    for index in range(start, len(runs)):
        text, styles = runs[index]
        runs[index] = Run(text, tuple(style for style in styles if style != ("link", href)))
    shown = plain(runs[start:])
    if href and href.removeprefix("mailto:") != shown:
        runs.append(Run(f" ({href})" if shown.strip() else href))


def is_linkable(address: str) -> bool:
    """Whether a platform makes a link of *address*; it silently drops a link to a host without a dot.

    Source: ``LinkManager::get_checked_link`` of TDLib, which is part of the Bot API server.
    """
    if len(address) > _LONGEST_LINK:
        return False
    web = _WEB_ADDRESS.match(address)
    port = int(web["port"] or 80) if web else 0
    return bool(_APP_ADDRESS.match(address)) if web is None else 0 < port < 65_536


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows in columns of equal width, with a rule under the first row: platforms draw no tables."""
    count = max(map(len, rows), default=0)
    widths = [max((_width(row[at]) for row in rows if at < len(row)), default=0) for at in range(count)]
    lines = [
        " | ".join(cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    ]
    return "\n".join([*lines[:1], "-+-".join("-" * width for width in widths), *lines[1:]])


def _width(text: str) -> int:
    """Columns in a monospaced font: East Asian wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


# -- cut --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChunkLimit:
    """The limit of one chunk: UTF-16 *units* of text, and *size* as the sum of *weigh* over its runs."""

    units: int
    size: int
    weigh: Callable[[Run], int]

    def cost(self, runs: Sequence[Run]) -> tuple[int, int]:
        return sum(units(run.text) for run in runs), sum(map(self.weigh, runs))

    def holds(self, costs: tuple[int, int]) -> bool:
        return costs[0] <= self.units and costs[1] <= self.size


def pack(blocks: Sequence[Block], limit: ChunkLimit) -> Iterator[tuple[Run, ...]]:
    """As few chunks as possible, with whole blocks; a block that exceeds one chunk is cut."""
    held: list[Run] = []
    used = (0, 0)
    for block in blocks:
        more = [Run(block.gap, _shared_quote(held, block.runs)), *block.runs] if held else [*block.runs]
        added = limit.cost(more)
        together = (used[0] + added[0], used[1] + added[1])
        if limit.holds(together):
            held.extend(more)
            used = together
            continue
        yield from _visible(held)
        *whole, rest = _cut(block.runs, limit)
        for piece in whole:
            yield from _visible(piece)
        held, used = [*rest], limit.cost(rest)
    yield from _visible(held)


def trim(runs: Sequence[Run]) -> tuple[Run, ...]:
    """*runs* without blank lines at both ends, and without blanks at the end."""
    text = plain(runs)
    start = len(text) - len(text.lstrip("\n"))
    return _slice(runs, start, len(text.rstrip()))


def _shared_quote(before: Sequence[Run], after: Sequence[Run]) -> tuple[Style, ...]:
    quote = ("quote", "")
    return (quote,) if quote in before[-1].styles and quote in after[0].styles else ()


def _visible(runs: Sequence[Run]) -> Iterator[tuple[Run, ...]]:
    if plain(runs).strip():
        yield tuple(runs)


def _cut(runs: tuple[Run, ...], limit: ChunkLimit) -> list[tuple[Run, ...]]:
    pieces = []
    while not limit.holds(limit.cost(runs)):
        end = _reach(runs, limit)
        text = plain(runs)
        end = cut_at(text, end, prefer_lines=_is_code(runs))
        pieces.append(_slice(runs, 0, end))
        blank = len(text) - len(text[end:].lstrip("\n" if _is_code(runs) else None))
        runs = _slice(runs, blank, len(text))
    return [*pieces, runs]


def _reach(runs: Sequence[Run], limit: ChunkLimit) -> int:
    """How many characters fit; at least one."""
    room, weight, count = limit.units, limit.size, 0
    for run in runs:
        low, high = 0, len(run.text)
        while low < high:  # the longest prefix of this run that fits
            middle = (low + high + 1) // 2
            start = Run(run.text[:middle], run.styles)
            low, high = (
                (middle, high) if units(start.text) <= room and limit.weigh(start) <= weight else (low, middle - 1)
            )
        count += low
        if low < len(run.text):
            break
        room -= units(run.text)
        weight -= limit.weigh(run)
    return max(count, 1)


def _slice(runs: Sequence[Run], start: int, end: int) -> tuple[Run, ...]:
    sliced, at = [], 0
    for run in runs:
        text = run.text[max(start - at, 0) : max(end - at, 0)]
        if text:
            sliced.append(Run(text, run.styles))
        at += len(run.text)
    return tuple(sliced)


def cut_at(text: str, end: int, *, prefer_lines: bool = False) -> int:
    """The best cut at or before *end*: after a line, sentence or word in the second half, else between characters."""
    for pattern in _BREAKS[:1] if prefer_lines else _BREAKS:
        places = [found.end() for found in re.finditer(pattern, text[:end]) if found.end() > end // 2]
        if places:
            return places[-1]
    return _between_characters(text, end)


def _between_characters(text: str, end: int) -> int:
    """The last boundary between visible characters: joined emoji, accents and flags stay whole."""
    for place in range(end, max(end - 32, 0), -1):
        if place == len(text) or not (_joins_left(text[place]) or text[place - 1] == "\u200d"):
            flags = re.search("[\U0001f1e6-\U0001f1ff]*$", text[:place])
            is_half_flag = (
                flags is not None and len(flags[0]) % 2 and "\U0001f1e6" <= text[place : place + 1] <= "\U0001f1ff"
            )
            if not is_half_flag:
                return place
    return end


def _joins_left(character: str) -> bool:
    return (
        character in "\u200d\ufe0e\ufe0f"
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or unicodedata.category(character)[0] == "M"
    )


# -- markdown as markdown ---------------------------------------------------------------------------------------------


def tables_as_code(text: str) -> str:
    """The same markdown with top-level tables as code blocks, for platforms that draw no tables."""
    lines = text.split("\n")
    for token in reversed([token for token in _PARSER.parse(text) if token.type == "table_open" and not token.level]):
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
            end = cut_at(rest, _reach([Run(rest)], ChunkLimit(limit, limit * 4, lambda _: 0)))
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
