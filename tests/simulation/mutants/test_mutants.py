"""The faults in the list are still faults of the code as it is, and the documentation has them all."""

import ast
from collections import Counter

import pytest

from tests.simulation.mutants.hunting import ROOT, Found, copy_with, hunt
from tests.simulation.mutants.listed import MUTANTS, table
from tests.simulation.mutants.mutant import Mutant

SHOWS_AT_ONCE = (
    "keeps-half-of-a-failed-work",
    "settles-without-a-claim",
    "completes-what-another-holds",
    "counts-no-attempt",
    "dies-without-a-reason",
    "rescues-no-turn",
    "runs-a-finished-turn-again",
    "forgets-that-it-has-sent",
)
"""Faults that the first world of a hunt finds within seconds. CI hunts them, so that the promises go on seeing them."""


def named(name: str) -> Mutant:
    (found,) = (each for each in MUTANTS if each.name == name)
    return found


def test_there_are_ninety_faults_each_with_a_name_of_its_own():
    assert len(MUTANTS) >= 90
    assert [name for name, count in Counter(each.name for each in MUTANTS).items() if count > 1] == []


def test_each_fault_can_be_put_into_the_code_as_it_is():
    """Its text stands there exactly once, and what replaces it is another text that Python reads."""
    for mutant in MUTANTS:
        for file, spoiled in mutant.spoiled(ROOT).items():
            assert ast.dump(ast.parse(spoiled)) != ast.dump(ast.parse((ROOT / file).read_text())), mutant.name


def test_a_fault_whose_text_is_gone_or_doubled_is_refused(tmp_path):
    for code in ("pass\n", "a = 1\na = 1\n"):
        (tmp_path / "file.py").write_text(code)
        with pytest.raises(ValueError, match="write it as the code is now"):
            Mutant("name", "file.py", "a = 1", "a = 2", "a promise").spoiled(tmp_path)


def test_a_copy_differs_in_the_fault_alone_and_the_checkout_does_not():
    mutant = named("claims-beside-a-turn")
    before, spoiled = (ROOT / mutant.file).read_text(), mutant.spoiled(ROOT)
    assert len(spoiled) == 2
    with copy_with(mutant) as folder:
        for file, code in spoiled.items():
            assert (folder / file).read_text() == code
            names = sorted(each.name for each in (ROOT / file).parent.iterdir())
            assert sorted(each.name for each in (folder / file).parent.iterdir()) == names
        assert (folder / "shared/core/chance.py").samefile(ROOT / "shared/core/chance.py")
    assert not folder.exists()
    assert (ROOT / mutant.file).read_text() == before


def test_the_documentation_lists_each_fault_with_what_finds_it():
    """``python -m tests.simulation.mutants --table`` prints the table."""
    assert table() in (ROOT / "docs/simulation.md").read_text()


def test_a_hunt_that_was_too_short_says_so_and_kills_what_it_began():
    found = hunt(named("dies-without-an-apology"), limit_s=0.1)
    assert found == Found("too slow", "0.1 s were over after 0 worlds: give it more with --limit")
    assert str(found).startswith("TOO SLOW")


@pytest.mark.long
@pytest.mark.any_python
def test_a_hunt_finds_a_fault_and_none_where_there_is_none():
    assert "is dead, and its sender got" in str(hunt(named("dies-without-an-apology")))
    assert hunt(None, worlds=1) == Found("survives", "", 1)
    assert hunt(named("trusts-a-torn-log")).end == "found", "by its test"


@pytest.mark.long
@pytest.mark.any_python
@pytest.mark.parametrize("name", SHOWS_AT_ONCE)
def test_a_hunt_finds_what_shows_at_once(name):
    """Where another world than that of the seed finds it now, say so in the list."""
    found = hunt(named(name), worlds=3)
    assert found.end == "found", str(found)
