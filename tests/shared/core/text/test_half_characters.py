import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.text import half_characters

EMOJI = "\U0001f600"
BODIES = {
    "no escapes": (b'{"a": "b"}', "b"),
    "other escapes": (rb'{"a": "\u00e9\n\\"}', "é\n\\"),
    "a first half": (rb'{"a": "a\ud83d"}', "a\ufffd"),
    "a second half": (rb'{"a": "\ude00b"}', "\ufffdb"),
    "in capitals": (rb'{"a": "\uD83D\uDE00\uD83D"}', EMOJI + "\ufffd"),
    "a whole character": (rb'{"a": "\ud83d\ude00"}', EMOJI),
    "a whole character between halves": (rb'{"a": "\ud83d\ud83d\ude00\ude00"}', f"\ufffd{EMOJI}\ufffd"),
    "halves apart": (rb'{"a": "\ud83d \ude00"}', "\ufffd \ufffd"),
    "a backslash before a word": (rb'{"a": "\\ud83d"}', r"\ud83d"),
    "a backslash before a half": (rb'{"a": "\\\ud83d"}', "\\\ufffd"),
    "a private character": (rb'{"a": "\ue000\ud7ff"}', "\ue000\ud7ff"),
}


@pytest.mark.parametrize(("body", "text"), BODIES.values(), ids=BODIES)
def test_a_half_in_json_costs_itself_and_nothing_else(body, text):
    assert json.loads(half_characters.mend_json(body)) == {"a": text}


def test_a_half_in_a_name_is_mended_too():
    assert json.loads(half_characters.mend_json(rb'{"\ud83d": 1}')) == {"\ufffd": 1}


@given(st.text(st.characters()))
def test_mended_json_can_be_stored_and_loses_only_halves(text):
    mended = json.loads(half_characters.mend_json(json.dumps(text).encode()))
    assert mended == half_characters.mend(text)
    assert mended.encode().decode() == mended
    if all(not 0xD800 <= ord(each) <= 0xDFFF for each in text):
        assert mended == text


TEXTS = {
    "whole": (f"é{EMOJI}", f"é{EMOJI}"),
    "a half": ("a\ud83d", "a\ufffd"),
    "two halves that follow each other": ("\ud83d\ude00", EMOJI),
    "a byte of an argument that is not UTF-8": ("caf\udce9", "caf\ufffd"),
}


@pytest.mark.parametrize(("text", "mended"), TEXTS.values(), ids=TEXTS)
def test_a_half_in_a_text_costs_itself_and_nothing_else(text, mended):
    assert half_characters.mend(text) == mended
