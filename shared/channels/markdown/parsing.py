"""Markdown to blocks of runs."""

import functools
import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.channels.markdown.runs import Block, Run, Style, is_code, plain, with_addresses

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_LONGEST_LINK = 2048
_DEEPEST = 50
_INLINE_STYLES = {"strong": "b", "em": "i", "s": "s"}
_LANGUAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+#_.-]{0,31}")
_WEB_ADDRESS = re.compile(r"https?://([A-Za-z0-9_-]+\.)+[A-Za-z0-9-]+(:(?P<port>[0-9]{1,5}))?(?=[/?#]|$)")
_APP_ADDRESS = re.compile(r"tg://[A-Za-z0-9_-]+(?=[/?]|$)")


def tokens_of(text: str) -> "list[Token]":
    """What markdown-it reads in a text: CommonMark with tables and strikethrough, without HTML and references."""
    return _parser().parse(text)


@functools.cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # late: a start would wait for its 60 modules

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST}).enable(["table", "strikethrough"])
    return parser.disable("reference")


def parse(text: str) -> tuple[Block, ...]:
    """The blocks of a markdown text, in order.

    A text of nothing but markup, or with deeper nesting than the parser follows, comes back unparsed.
    """
    tokens = tokens_of(text)
    is_too_deep = any(token.level >= _DEEPEST - 1 for token in tokens)  # the parser skips deeper content
    blocks = () if is_too_deep else tuple(block for block in _BlockBuilder(tokens).blocks if plain(block.runs).strip())
    return blocks or (Block((Run(text),)),)


class _BlockBuilder:
    """Walks the tokens once; tracks open quotes and lists."""

    def __init__(self, tokens: "Sequence[Token]") -> None:
        self.blocks: list[Block] = []
        self._quotes = 0
        self._depth = 0
        self._marker = ""
        self._gap = "\n\n"
        self._heading = False
        self._rows: list[list[str]] | None = None
        for token in tokens:
            self._read(token)

    def _read(self, token: "Token") -> None:  # noqa: C901  (one case for each kind of token)
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
        lead = [] if is_code(runs) else [Run(indent + self._marker)]
        quote: tuple[Style, ...] = (("quote", ""),) if self._quotes else ()
        self.blocks.append(
            Block(tuple(Run(text, quote + styles) for text, styles in [*lead, *runs] if text), self._gap)
        )
        self._marker = ""
        self._gap = "\n" if self._depth else "\n\n"


def _inline(token: "Token", styles: tuple[Style, ...] = ()) -> list[Run]:
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


def _add_image(runs: list[Run], token: "Token", styles: tuple[Style, ...]) -> None:
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
