import pytest

from shared.agents import code_parts

TEXTS = {
    "a block": "a\n[```py\nx\n```]\nb",
    "with tildes": "[~~~\n```\n~~~]",
    "in a quotation": "[> ```\n> x\n> ```]",
    "a longer fence": "[````\n```\nx\n````]\ny",
    "ticks": "say [`x`] and [``a ` b``]",
    "a lone tick": "5` tall",
    "ticks over two lines": "a ` b\nc ` d",
}


@pytest.mark.parametrize("marked", TEXTS.values(), ids=TEXTS)
def test_closed_code_is_found(marked):
    text = marked.replace("[", "").replace("]", "")
    ranges = code_parts.closed(text)
    shown = text
    for start, end in reversed(ranges):
        shown = f"{shown[:start]}[{shown[start:end]}]{shown[end:]}"
    assert shown.replace("[> ", "> [").replace("> [```", "[> ```") == marked


def test_a_block_that_is_never_closed_is_code_to_the_end():
    text = "a\n```\nb"
    assert (code_parts.closed(text), code_parts.all_of(text)) == ([], [(2, 7)])


def test_a_place_is_in_code_from_its_first_to_its_last_character():
    assert [code_parts.has([(2, 4), (6, 8)], place) for place in range(9)] == [
        *(False, False, True, True, False, False, True, True, False)
    ]
