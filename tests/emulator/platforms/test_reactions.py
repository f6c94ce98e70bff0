"""Reactions of several people and the bot to one message."""

from emulator.platforms import reactions


def test_a_new_choice_replaces_the_one_before_and_leaves_the_others():
    detail = reactions.chosen({"entities": []}, "ana", ["👍"])
    detail = reactions.chosen(detail, "ben", ["👍"])
    detail = reactions.chosen(detail, "ana", ["👀"])
    assert reactions.read(detail) == {"👍": ["ben"], "👀": ["ana"]}
    assert reactions.of_one(detail, "ana") == ["👀"]
    assert detail["entities"] == []
    assert reactions.read(reactions.chosen(detail, "ben", [])) == {"👀": ["ana"]}


def test_the_list_of_the_first_release_is_read():
    assert reactions.read({"reactions": ["👀"]}) == {"👀": ["bot"]}
