"""``render`` of the Telegram adapter, checked with Telegram's own parser (the one of the Bot API server)."""

import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
import tdjson
from hypothesis import example, given
from hypothesis import strategies as st

from shared.channels.base import OutgoingFile
from shared.channels.telegram.channel import TelegramChannel, TelegramSettings
from tests.examples import examples


def execute(**request):
    """Run a synchronous request, which needs neither a client nor the network."""
    return json.loads(tdjson.td_execute(json.dumps(request).encode()))


execute(**{"@type": "setLogVerbosityLevel", "new_verbosity_level": 0})


def telegram_reads(html):
    """``(text, entities)`` as the person sees them; fails where ``sendMessage`` would."""
    mode = {"@type": "textParseModeHTML"}
    result = execute(**{"@type": "parseTextEntities", "text": html, "parse_mode": mode})
    assert result["@type"] == "formattedText", (result, html)
    entities = [(item["type"]["@type"].removeprefix("textEntityType"), item) for item in result["entities"]]
    return result["text"], entities


def units(text):
    """UTF-16 code units, counted independently of the code under test."""
    return len(text.encode("utf-16-le")) // 2


def render(text):
    return TelegramChannel(TelegramSettings.load()).render(text)


def accepted(text):
    """The parts of *text*, each checked against every limit."""
    parts = render(text)
    for part in parts:
        read, entities = telegram_reads(part.html)
        has_links = any(kind in ("TextUrl", "MentionName") for kind, _ in entities)
        for shown in (read, *([] if has_links else [part.text])):  # the plain form has the addresses too
            assert 1 <= len(shown) <= units(shown) <= 4096
            assert shown.strip()
        assert len(part.html.encode()) <= 32768
    return parts


STYLES = ["Bold", "Italic", "Strikethrough", "Code"]


def solid(text):
    return "".join(text.split())


WORDS = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Cf", "Cn", "Co"], exclude_characters="\\`*_~[]()<>#+-=|!&:.\u00ad"),
    min_size=1,
    max_size=12,
)
INLINE = st.sampled_from([
    "**b**", "*i*", "__b__", "~~s~~", "***both***", "**`x`**", "`c<d>`", "[`c`](https://e.org)", "[**b**](http://e)",
    '[l](https://e.org/?a=1&b="2")', "[](http://x.y)", "![p](http://i.j/k.png)", "[x](javascript:alert(1))",
    "<b>", "</pre>", "<script>", "List<String>", "&amp;", '& < > "', "\\*", "&#0;", "*", "_", "`", "[", "](",
    "\n", "  \n", "\x00", "\u202e", "👩‍👩‍👧‍👦", "🏳️‍🌈", "\U0001d518",
])  # fmt: skip
LINES = st.lists(WORDS | INLINE, min_size=1, max_size=12).map(" ".join)


def code_of(language, lines):
    return "\n".join([f"```{language}", *lines, "```"])


def table_of(cells):
    row = f"|{'|'.join(cells)}|"
    return "\n".join([row, "|-" * len(cells) + "|", row])


BLOCKS = st.one_of(
    LINES,
    LINES.map("# {}".format),
    LINES.map("> {}".format),
    LINES.map("> > - {}".format),
    st.lists(LINES, max_size=5).map(lambda items: "\n".join(f"- {item}" for item in items)),
    st.lists(LINES, max_size=5).map(lambda items: "\n".join(f"{n}. {item}\n   - in" for n, item in enumerate(items))),
    st.builds(code_of, st.sampled_from(["", "py", "c++", "a b", '"><b>']), st.lists(LINES, max_size=8)),
    st.lists(LINES, min_size=2, max_size=4).map(table_of),
    st.sampled_from(["---", "***", "```", "2026.", "#", ">", "-", "1.", "[a]: b", "    code", "<div>\nx\n</div>"]),
)
DOCUMENTS = st.tuples(st.lists(BLOCKS, min_size=1, max_size=8), st.sampled_from([1, 1, 1, 20, 60])).map(
    lambda doc: "\n\n".join(doc[0] * doc[1])
)


@examples(300)
@given(DOCUMENTS)
def test_telegram_accepts_every_part_of_any_document(text):
    parts = accepted(text)
    assert bool(parts) == bool(text.replace("\x00", "").strip())


@examples(150)
@given(DOCUMENTS)
def test_telegram_accepts_every_caption_and_no_word_is_lost_to_the_files(text):
    """A caption holds 1024; a longer text goes before the files, as it would without them."""
    picture = OutgoingFile(Path("x"), "x.png", "image/png", 5, "photo")
    *before, last = TelegramChannel(TelegramSettings.load()).render(text, [picture])
    assert [*before, *([replace(last, files=())] if last.text else [])] == list(render(text))
    assert (last.files, [part.files for part in before]) == ((picture,), [()] * len(before))
    if last.text:
        shown, _ = telegram_reads(last.html)
        assert max(units(shown), units(last.text)) <= 1024


@examples(200)
@given(st.text(max_size=300), st.sampled_from([1, 1, 40]))
def test_telegram_accepts_every_part_of_any_text(text, times):
    for part in render(text * times):
        telegram_reads(part.html)
        assert units(part.text) <= 4096


@examples(150)
@given(
    st.lists(st.lists(WORDS, min_size=1, max_size=40).map(" ".join), min_size=1, max_size=12),
    st.sampled_from(["\n", "\n\n"]),
    st.sampled_from([1, 10, 40]),
)
@example(["x" * 12000], "\n", 1)
@example(["👩‍👩‍👧‍👦" * 900], "\n", 1)
def test_every_word_of_a_plain_text_arrives_in_order(lines, separator, times):
    text = separator.join(lines * times)
    parts = accepted(text)
    assert solid("".join(part.text for part in parts)) == solid(text)


@examples(100)
@given(st.text(st.sampled_from("abc .\n<&>\"'é中😀"), min_size=1, max_size=9000))
def test_telegram_shows_exactly_the_plain_text_of_a_part(text):
    for part in accepted(text):
        assert solid(telegram_reads(part.html)[0]) == solid(part.text)


@pytest.mark.parametrize(
    ("text", "shown", "kinds"),
    [
        ("**bold** and *italic*, ~~gone~~, `code`", "bold and italic, gone, code", STYLES),
        ("# Title\n\ntext", "Title\n\ntext", ["Bold"]),
        ("[site](https://example.org/a?b=1&c=2)", "site", ["TextUrl"]),
        ("[](https://example.org)", "https://example.org", []),
        ("![chart](https://example.org/c.png)", "chart", ["TextUrl"]),
        ("[file](docs/a.md)", "file (docs/a.md)", []),
        ("- a\n- b\n  - c\n\n7) x\n8) y", "• a\n• b\n  • c\n\n7) x\n8) y", []),
        ("> said\n>\n> twice\n\nend", "said\n\ntwice\n\nend", ["BlockQuote"]),
        ("```py\nif a < b:\n    pass\n```", "if a < b:\n    pass", ["PreCode"]),
        ("| a | b |\n|---|---|\n| 1 | 中文 |", "a | b\n--+-----\n1 | 中文", ["Pre"]),
        ("a List<String> & <b>more</b>", "a List<String> & <b>more</b>", []),
        ("**half", "**half", []),
        ("2026.", "2026.", []),
        ("[a]: https://example.org", "[a]: https://example.org", []),
    ],
)  # fmt: skip
def test_markdown_becomes_what_telegram_shows(text, shown, kinds):
    (part,) = render(text)
    read, entities = telegram_reads(part.html)
    assert read == shown
    assert "TextUrl" in kinds or part.text == shown
    assert [kind for kind, _ in entities if kind != "Url"] == kinds


DROPPED = {
    "a host without a dot": "http://localhost:3000/x",
    "a host of an intranet": "http://intranet/x",
    "an address without a host": "http:///x",
    "a port that is none": "https://example.org:99999/x",
    "port zero": "https://example.org:0/x",
    "a mail address": "mailto:ana@example.org",
    "another scheme": "ftp://example.org/x",
    "a path": "docs/a.md",
}


@pytest.mark.parametrize("address", DROPPED.values(), ids=DROPPED)
def test_the_reader_sees_an_address_that_telegram_would_drop(address):
    (part,) = render(f"see [the page]({address}) now")
    read, entities = telegram_reads(part.html)
    assert read == part.text == f"see the page ({address}) now"
    assert not any(kind == "TextUrl" for kind, _ in entities)


HOSTS = st.from_regex(r"[a-z0-9_-][a-z0-9_.-]{0,20}", fullmatch=True)
ADDRESSES = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["http://", "https://", "HTTP://", "tg://", "ton://", "mailto:", "//", ""]),
    HOSTS | st.sampled_from(["example.org", "ana:pw@example.org", "localhost", "127.0.0.1", "[::1]", "xn--a.b"]),
    st.sampled_from(["", ":80", ":0", ":65535", ":65536", ":99999", ":x"]),
    st.sampled_from(["", "/", "/a?b=1&c=2#d", "?q", "#f", "/%zz"]),
)


@examples(400)
@given(ADDRESSES)
def test_the_reader_can_click_or_read_every_address(address):
    """Whatever the address: either Telegram makes a link of it, or the text shows it."""
    (part,) = render(f"see [page]({address}) now")
    read, entities = telegram_reads(part.html)
    is_link = any(kind in ("TextUrl", "MentionName") for kind, _ in entities)
    assert is_link or solid(address.removeprefix("mailto:")).lower() in solid(unquote(read) + read).lower()


def test_a_link_in_a_table_shows_its_address():
    """A table is drawn as code, where nothing can be clicked."""
    (part,) = render("| page | by |\n|---|---|\n| [one](https://e.org/1) | Ana |")
    assert telegram_reads(part.html)[0].splitlines()[2] == "one (https://e.org/1) | Ana"


def test_plain_text_shows_the_addresses_of_its_links():
    """It takes the place of markup that a platform refuses, and there nothing can be clicked."""
    (part,) = render("[one **two**](https://e.org/?a=1&b=2), <https://e.org> and [](https://f.org)")
    assert part.text == "one two (https://e.org/?a=1&b=2), https://e.org and https://f.org"


def test_an_oversized_code_block_is_reopened_with_its_language():
    parts = accepted("intro\n\n```py\n" + "print('x')\n" * 900 + "```\n\nend")
    kinds = [[(kind, item["type"].get("language")) for kind, item in telegram_reads(part.html)[1]] for part in parts]
    assert len(parts) == 4
    assert all(("PreCode", "py") in found for found in kinds[1:])
    assert "".join(part.text for part in parts).count("print('x')") == 900
    assert all(line in ("print('x')", "intro", "end", "") for part in parts for line in part.text.split("\n"))


def test_paragraphs_stay_whole_where_possible():
    paragraph = "word " * 300
    parts = accepted("\n\n".join([paragraph.strip()] * 5))
    assert [part.text.count("\n\n") for part in parts] == [1, 1, 0]


def test_a_long_paragraph_is_cut_at_a_sentence():
    parts = accepted("This is one sentence of many. " * 300)
    assert all(part.text.endswith("many.") for part in parts)


@pytest.mark.parametrize("character", ["👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "é̂"])
@pytest.mark.parametrize("offset", range(5))
def test_a_cut_does_not_fall_inside_a_visible_character(character, offset):
    parts = accepted("x" * offset + character * 1500)
    for part in parts:
        assert not part.text.lstrip("x").replace(character, "")


def test_the_size_of_the_markup_is_limited_too():
    text = "[a](https://example.org/" + "p" * 1500 + ") "
    parts = accepted(text * 60)
    assert len(parts) > 1
    assert sum(telegram_reads(part.html)[0].count("a") for part in parts) == 60


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\x00", "\t\n "])
def test_a_text_without_visible_content_has_no_part(text):
    assert render(text) == ()


def test_deep_nesting_and_long_texts_render():
    accepted(">" * 400 + " deep")
    accepted("- " * 3000 + "x")
    accepted("[" * 20000)
    assert sum(len(part.text) for part in accepted("y" * 300_000)) == 300_000
