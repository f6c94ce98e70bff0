import json

import pytest

from shared.agents.providers.api import history
from shared.agents.providers.api.history import HistoryLost
from shared.core.errors import ConfigInvalid

S = "session_a"


def turn(text, *more):
    parts = [{"part_kind": "user-prompt", "content": text}]
    return [{"kind": "request", "parts": parts}, {"kind": "response", "parts": [{"part_kind": "text"}]}, *more]


def save(folder, *turns, before=None, most=10_000):
    messages = [message for each in turns for message in each]
    return history.save(folder, S, json.dumps(messages).encode(), most_bytes=most, before=before)


def load(folder, name):
    return json.loads(history.load(folder, S, name))


def test_each_turn_has_a_file_and_the_one_before_stays_until_the_next(tmp_path):
    first = save(tmp_path, turn("one"))
    second = save(tmp_path, turn("one"), turn("two"), before=first)
    assert (load(tmp_path, first), load(tmp_path, second)) == (turn("one"), [*turn("one"), *turn("two")])
    save(tmp_path, turn("three"), before=second)
    with pytest.raises(HistoryLost):
        load(tmp_path, first)


def test_the_oldest_turns_are_left_out_whole():
    result = {"kind": "request", "parts": [{"part_kind": "tool-return"}]}
    newest = turn("b", result)
    assert history.bounded([*turn("a" * 500), *newest], 400) == newest
    assert history.bounded(turn("a" * 500), 10) == turn("a" * 500)


def test_what_a_turn_was_told_beside_the_result_of_a_tool_begins_no_turn():
    """Else the call could be left out, and its result stay: no API takes that."""
    told = {"kind": "request", "parts": [{"part_kind": "tool-return"}, {"part_kind": "user-prompt", "content": "more"}]}
    newest = turn("b" * 300, told)
    assert history.bounded([*turn("a"), *newest], 200) == newest


def test_files_that_the_model_has_seen_are_not_kept():
    content = ["look", {"kind": "binary", "data": "x" * 1000}]
    assert history.bounded(turn(content), 10_000)[0]["parts"][0]["content"] == ["look"]


LOST = ["", "1", "api-" + "0" * 24, "../../x", "api-" + "0" * 24 + "/../x"]


@pytest.mark.parametrize("continuation", LOST)
def test_a_continuation_that_names_no_file_is_lost(tmp_path, continuation):
    with pytest.raises(HistoryLost):
        history.load(tmp_path, S, continuation)


@pytest.mark.parametrize("text", ["", "{}", "[", "[" * 100_000])
def test_a_damaged_file_is_lost(tmp_path, text):
    name = save(tmp_path, turn("one"))
    (tmp_path / "sessions" / S / "api" / f"{name}.json").write_text(text)
    with pytest.raises(HistoryLost):
        history.load(tmp_path, S, name)


def test_no_link_is_followed(tmp_path):
    (tmp_path / "sessions").symlink_to(tmp_path)
    with pytest.raises(ConfigInvalid, match="a link"):
        save(tmp_path, turn("one"))
