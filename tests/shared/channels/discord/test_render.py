"""``render`` of the Discord adapter: Markdown stays, and every part fits."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.channels.discord.channel import DiscordChannel
from shared.channels.discord.settings import DiscordSettings
from tests.examples import examples


def units(text):
    """UTF-16 code units, counted independently of the code under test."""
    return len(text.encode("utf-16-le")) // 2


def render(text):
    return [part.text for part in DiscordChannel(DiscordSettings.load()).render(text)]


def words_of(pieces):
    """Every visible character, without the fences that a cut adds."""
    lines = [line for piece in pieces for line in piece.split("\n") if not re.match(r"^\s*(>\s*)*(`{3,}|~{3,})", line)]
    return "".join("".join(lines).split())


LINES = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="|-"), max_size=400)
TEXTS = st.lists(
    LINES | st.sampled_from(["```", "```py", "~~~", "````", "> ```", "", "# t", "- a", "👩‍👩‍👧‍👦" * 30, "x" * 2500]),
    min_size=1,
    max_size=60,
).map("\n".join)


@examples(200)
@given(TEXTS)
@example("~" * 20000)
@example("`" * 20000)
@example("```py\n" + "x" * 9000)
def test_every_part_fits_and_no_visible_character_is_lost(text):
    pieces = render(text)
    assert all(1 <= len(piece) <= units(piece) <= 2000 and piece.strip() for piece in pieces)
    assert words_of(pieces) == words_of([text])


def test_markdown_is_sent_unchanged():
    text = "# Title\n\n**b** _i_ [l](https://e.org) <t:1>\n\n- a\n- b\n\n```py\nx\n```"
    assert render(text) == [text]


def test_an_oversized_code_block_is_reopened_with_its_language():
    pieces = render("intro\n```py\n" + "print('x')\n" * 500 + "```\nend")
    assert len(pieces) > 2
    assert all(piece.count("```") % 2 == 0 for piece in pieces)
    assert all(piece.startswith("```py\n") for piece in pieces[1:])
    assert sum(piece.count("print('x')") for piece in pieces) == 500


def test_a_table_becomes_a_code_block():
    assert render("before\n\n| a | b |\n|---|---|\n| 1 | 中 |\n\nafter") == [
        "before\n\n```\na | b\n--+---\n1 | 中\n```\n\nafter"
    ]


def test_a_link_in_a_table_shows_its_address():
    """A table becomes code, where nothing can be clicked."""
    (text,) = render("| page | by |\n|---|---|\n| [one](https://e.org/1) | Ana |")
    assert "one (https://e.org/1) | Ana" in text


def test_a_cut_falls_between_paragraphs_where_possible():
    pieces = render("\n\n".join(["word " * 120] * 6))
    assert all(piece.count("word") % 120 == 0 for piece in pieces)


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\x00"])
def test_a_text_without_visible_content_has_no_part(text):
    assert render(text) == []
