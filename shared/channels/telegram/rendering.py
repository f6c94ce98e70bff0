"""Markdown and files to the parts of a message: Telegram's HTML, its plain form, and albums. Pure.

Source: https://core.telegram.org/bots/api (10.3): #html-style, #sendmessage, #sendphoto (captions).
"""

import html
from collections.abc import Iterator, Sequence

from shared.channels import sanitize
from shared.channels.base import OutgoingFile, Part
from shared.channels.markdown.cutting import ChunkLimit, pack, trim
from shared.channels.markdown.parsing import parse
from shared.channels.markdown.runs import Run, Style, units, with_addresses
from shared.channels.telegram import media

PART_UNITS = 3800  # Telegram's limit is 4096, in code points or in UTF-16 units
PART_HTML_BYTES = 30_000  # Telegram's limit is 32768, before parsing
CAPTION_UNITS = 1000  # Telegram's limit is 1024
DRAFT_SOURCE_CHARACTERS = 12_000  # of the end of what an agent has said, for a preview of one message

_TAGS = {"b": "b", "i": "i", "s": "s", "code": "code", "quote": "blockquote"}


def parts_of(text: str, files: Sequence[OutgoingFile] = ()) -> Iterator[Part]:
    """The parts in the order in which they go out. A text too long for a caption goes before the files."""
    texts = tuple(_texts(text))
    albums = tuple(media.albums(files))
    is_caption = bool(albums) and len(texts) == 1 and units(texts[0].text) <= CAPTION_UNITS
    if not is_caption:
        yield from texts
    for at, album in enumerate(albums):
        caption = texts[0] if is_caption and at == 0 else Part("")
        yield Part(caption.text, caption.html, album)


def draft_of(text: str) -> Part | None:
    """The end of what an agent has said so far, as far as one preview holds it; None where there is nothing yet.

    The text may end anywhere: what has no end stays text.
    """
    *_, last = (None, *_texts(text[-DRAFT_SOURCE_CHARACTERS:]))
    return last


def _texts(text: str) -> Iterator[Part]:
    limit = ChunkLimit(PART_UNITS, PART_HTML_BYTES, _html_bytes)
    blocks = parse(sanitize.text(text.replace("\r\n", "\n")))
    for runs in map(trim, pack(blocks, limit)):
        yield Part(text=with_addresses(runs), html=to_html(runs))


def to_html(runs: Sequence[Run]) -> str:
    """Telegram HTML of styled runs; tags are closed in reverse order of opening."""
    pieces: list[str] = []
    opened: list[Style] = []
    for text, styles in [*runs, Run("")]:
        shared = 0
        while shared < min(len(opened), len(styles)) and opened[shared] == styles[shared]:
            shared += 1
        pieces += [_tags(style)[1] for style in reversed(opened[shared:])]
        pieces += [_tags(style)[0] for style in styles[shared:]]
        opened = list(styles)
        pieces.append(html.escape(text, quote=False))
    return "".join(pieces)


def _tags(style: Style) -> tuple[str, str]:
    name, argument = style
    if name == "link":
        return f'<a href="{html.escape(argument)}">', "</a>"
    if name == "pre":
        language = f'<code class="language-{html.escape(argument)}">' if argument else ""
        return f"<pre>{language}", "</code></pre>" if argument else "</pre>"
    return f"<{_TAGS[name]}>", f"</{_TAGS[name]}>"


def _html_bytes(run: Run) -> int:
    return len(to_html([run]).encode("utf-8", "surrogatepass"))
