"""Which emoji a reaction may be."""

import pytest

from shared.core.errors import ConfigInvalid, WrongState
from shared.queue import reactions


@pytest.mark.parametrize(
    ("channel", "emoji", "given"),
    [
        ("telegram", "👀", "👀"),
        ("telegram", "❤️", "❤"),
        ("telegram.sales", "✅", "👍"),
        ("telegram", None, None),
        ("discord", "🥑", "🥑"),
    ],
)
def test_an_emoji_is_taken_as_the_platform_lists_it_or_the_nearest(channel, emoji, given):
    assert reactions.checked(channel, emoji) == given


def test_an_emoji_that_is_near_to_none_is_refused_with_those_that_are_taken():
    with pytest.raises(ConfigInvalid, match="telegram does not take the reaction '🥑'; it takes: ❤ 👍"):
        reactions.checked("telegram", "🥑")


def test_a_channel_without_reactions_says_so():
    with pytest.raises(WrongState, match="api has no reactions"):
        reactions.checked("api", "👍")
