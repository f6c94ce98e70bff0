import re
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from shared.channels import part_cuts
from shared.channels.base import OutgoingFile, Part
from shared.channels.part_cuts import cut, cut_all
from tests.examples import examples

LONG = Part("\n\n".join(f"Paragraph {number}: " + "word " * 60 for number in range(6)), "<b>html</b>")
SHORT = Part("short", "<b>short</b>")


def visible(parts):
    """Every visible character, without the fences that a cut adds."""
    return "\n".join(re.sub(r"(?m)^(`{3,}|~{3,}).*$", "", part.text) for part in parts).split()


def test_a_long_part_is_cut_and_its_neighbours_stay():
    before, *pieces, after = cut((SHORT, LONG, SHORT), 1)
    assert (before, after) == (SHORT, SHORT)
    assert len(pieces) >= 2
    assert all(len(piece.text) < len(LONG.text) * 0.6 and piece.html is None for piece in pieces)
    assert visible(pieces) == visible([LONG])


def test_the_caption_of_files_goes_before_them_and_the_files_stay_together():
    files = tuple(OutgoingFile(Path(name), name, "text/plain", 1) for name in "ab")
    *pieces, last = cut((replace(LONG, files=files),), 0)
    assert (last, [piece.files for piece in pieces]) == (Part("", files=files), [()] * len(pieces))
    assert visible(pieces) == visible([LONG])


def test_a_short_part_and_a_part_that_is_not_there_stay():
    assert cut((SHORT,), 0) == (SHORT,)
    assert cut((LONG,), 1) == (LONG,)


def test_cuts_are_by_the_number_that_a_part_had_at_that_time():
    once = cut((LONG, LONG), 0)
    assert cut_all((LONG, LONG), (0, len(once) - 1)) == cut(once, len(once) - 1)
    assert cut_all((LONG, LONG), ()) == (LONG, LONG)


@examples(100)
@given(st.text(st.sampled_from("abc .\n`é中😀"), min_size=1, max_size=5000).map(str.strip).filter(bool))
def test_any_part_can_be_cut_until_it_is_short_and_loses_no_word(text):
    parts = (Part(text),)
    for _ in range(200):
        longest = max(range(len(parts)), key=lambda index: len(parts[index].text))
        smaller = cut(parts, longest)
        if smaller == parts:
            break
        parts = smaller
    assert all(len(part.text) <= part_cuts.SHORTEST_CUT for part in parts)
    assert "".join(text.split()).replace("`", "") == "".join("".join(p.text for p in parts).split()).replace("`", "")
