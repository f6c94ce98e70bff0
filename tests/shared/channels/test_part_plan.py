"""The parts of a response after objections: numbers stay, nothing is lost, and what is left out is said last."""

from pathlib import Path

import pytest

from shared.channels import part_plan
from shared.channels.base import OutgoingFile, Part
from shared.channels.part_plan import FilesUnsendable, PartPlan
from shared.core.errors import FilesRefused, PartTooLong


def file(name):
    return OutgoingFile(Path(f"/files/{name}"), name, "text/plain", 2)


A, B, C = file("a"), file("b"), file("c")


def render(text, files=()):
    """A caption with an album of all files."""
    return (Part(text, files=tuple(files)),) if text or files else ()


def shown(plan):
    return [(part.text, "".join(each.name for each in part.files)) for part in plan.parts]


def plan(text="hi", files=(A, B, C), **more):
    return PartPlan(render, text, files, **more)


def test_a_file_that_is_left_out_is_told_in_the_last_part():
    gone = plan().without({B.path: "it is gone"})
    assert shown(gone) == [("hi", "ac"), ("(The file b was not sent: it is gone.)", "")]
    assert part_plan.read(part_plan.stored(gone.unsent)) == {1: "it is gone"}


def test_several_are_told_in_the_order_of_the_files():
    gone = plan().without({C.path: "late"}).without({A.path: "early"})
    assert gone.note.split("\n\n") == ["(The file a was not sent: early.)", "(The file c was not sent: late.)"]


def test_a_part_without_anything_left_is_empty_and_keeps_its_number():
    gone = plan(text="").without({each.path: "gone" for each in (A, B, C)})
    assert [part_plan.is_empty(part) for part in gone.parts] == [True, False]


def test_a_refused_album_goes_out_caption_first_then_file_by_file():
    refused = FilesRefused("no")
    first = plan().after(refused, 0)
    assert shown(first) == [("hi", ""), ("", "abc")]
    second = first.after(refused, 1)
    assert shown(second) == [("hi", ""), ("", "a"), ("", "b"), ("", "c")]
    third = second.after(refused, 2)
    assert shown(third) == [("hi", ""), ("", "a"), ("", ""), ("", "c"), ("(The file b was not sent: no.)", "")]


def test_a_caption_whose_one_file_is_refused_stays_a_text():
    assert shown(plan(files=(A,)).after(FilesRefused("no"), 0))[0] == ("hi", "")


def test_a_caption_that_is_too_long_goes_out_before_its_files():
    assert shown(plan().after(PartTooLong("long"), 0)) == [("hi", ""), ("", "abc")]


def test_what_can_not_be_smaller_is_no_plan():
    assert PartPlan(render, "hi").after(PartTooLong("long"), 0) is None


def test_what_is_gone_here_costs_no_cut():
    after = plan().after(FilesUnsendable({A.path: "gone"}), 0)
    assert (after.cuts, dict(after.unsent)) == ((), {0: "gone"})


@pytest.mark.parametrize("steps", [[], [0], [0, 1]])
def test_the_same_row_gives_the_same_parts_again(steps):
    made = plan(cuts=tuple(steps), unsent={1: "gone"})
    again = plan(cuts=tuple(steps), unsent=part_plan.read(part_plan.stored(made.unsent)))
    assert shown(made) == shown(again)


def test_a_text_without_files_needs_no_argument_for_them():
    assert shown(PartPlan(lambda text: (Part(text),), "hi")) == [("hi", "")]
