import pytest

from shared.agents import thinking

TEXTS = {
    "none": ("2 < 3", "2 < 3"),
    "one": ("<internal>he is rude</internal>Hello", "Hello"),
    "in the middle": ("Hi.\n\n<thinking>hm\n</thinking>\n\nBye.", "Hi.\n\nBye."),
    "several": ("<think>a</think>1 <internal>b</internal>2", "1 2"),
    "in capitals": ("<Think>a</THINK>b", "b"),
    "never closed": ("Hi. <internal>he is rude", "Hi."),
    "begun by the chat template": ("let me see\n</think>\n\nHi", "Hi"),
    "closed by another tag": ("<internal>a</think>b</internal>c", "c"),
    "code in it": ("<internal>```\nx</internal>\nHi\n```\n<think>y</think>\n```", "Hi\n```\n<think>y</think>\n```"),
    "in code": (
        "Write `<think>x</think>` or\n```\n<internal>\n```",
        "Write `<think>x</think>` or\n```\n<internal>\n```",
    ),
    "behind code that is never closed": ("```\na\n<internal>secret", "```\na"),
    "behind a lone backtick": ("a ` b <internal>secret</internal> c", "a ` b  c"),
    "another tag": ("<internalise>x</internalise>", "<internalise>x</internalise>"),
}


@pytest.mark.parametrize(("text", "left"), TEXTS.values(), ids=TEXTS)
def test_what_an_agent_says_to_itself_is_not_said(text, left):
    assert thinking.without(text).text == left


def test_a_block_may_go_on_over_several_texts():
    first = thinking.without("Hi <internal>one")
    second = thinking.without("two", first.open)
    third = thinking.without("three</internal> Bye", second.open)
    assert [first.text, second.text, third.text] == ["Hi", "", " Bye"]
    assert (second.open, third.open) == ("internal", None)


def test_only_a_block_that_is_marked_as_internal_says_that_the_agent_chose_silence():
    assert thinking.without("<internal>not for me</internal>").was_internal
    assert not thinking.without("<think>hm</think>").was_internal


def test_many_blocks_take_no_long_time():
    text = "<think>`a`</think>b" * 50_000
    assert thinking.without(text).text == "b" * 50_000
