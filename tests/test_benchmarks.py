"""The table of ``make bench``: what is watched, and that docs/benchmarks.md is what the code writes."""

import importlib
import subprocess
from pathlib import Path

import pytest

from tests.benchmarks import __main__ as benchmarks
from tests.benchmarks.harness import age, report
from tests.benchmarks.harness.measure import Spread, at_least, watched

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/benchmarks.md").read_text()
OLDEST = 150  # commits of product code that a figure may be behind
MODULES = sorted(module for modules in benchmarks.SECTIONS.values() for module in modules)


@pytest.mark.parametrize(
    ("before", "now", "is_less_better", "share"),
    [
        ("0.50", 0.46, False, "0.92 of the last table's"),
        ("0.50", 0.44, False, "0.88 **fell**"),
        ("2,000", 2200, True, "0.91 of the last table's"),
        ("2,000", 2300, True, "0.87 **fell**"),
    ],
)
def test_a_watched_line_says_what_is_left_of_the_last_tables_figure(before, now, is_less_better, share):
    page = f"| enqueue | {before} (0.1 to 9) | watched |  | raw 1/s |\n"
    line = watched("enqueue", Spread.of([now]), is_less_better=is_less_better, reason="the id is random")

    compared = report.compared(line, report.figures(page))

    assert report.row(compared).split(" | ")[2:4] == ["watched", share]
    assert ("- enqueue: the id is random." in report.section("1", [compared])) == ("fell" in share)


def test_a_watched_line_that_is_new_stands_alone():
    line = watched("enqueue", Spread.of([0.5]))
    assert report.compared(line, {}) == line
    assert report.row(line) == "| enqueue | 0.50 (0.50 to 0.50) | watched |  |  |"


def test_a_bar_is_the_same_whatever_the_last_table_says():
    line = at_least("enqueue", Spread.of([0.5]), 0.5)
    assert report.compared(line, {"enqueue": 99.0}) == line


def test_a_line_of_the_page_reads_back_as_its_figure():
    lines = [watched("small", Spread.of([0.04])), watched("large, 1 M", Spread.of([12345.6]))]
    page = report.section("1. The queue", lines)
    assert report.figures(page) == {"small": 0.04, "large, 1 M": 12345.6}


@pytest.mark.skipif(not age.has_history(ROOT), reason="a shallow clone, or no clone, has no commits to count")
def test_the_figures_are_of_code_like_this():
    """``make bench`` measures again."""
    assert age.commits_since(ROOT, PAGE) <= OLDEST


def test_the_page_ends_with_what_the_benchmark_says_of_itself():
    assert PAGE.endswith(report.NOTES)


def test_every_module_with_lines_is_in_a_section():
    files = ROOT.glob("tests/benchmarks/**/*.py")
    measured = [path for path in files if "\nLINES = (" in path.read_text()]
    names = {".".join(path.relative_to(ROOT / "tests/benchmarks").with_suffix("").parts) for path in measured}
    assert names == set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_of_the_benchmark_has_lines(module):
    assert importlib.import_module(f"tests.benchmarks.{module}").LINES


def git(folder, *words):
    """What git says, with a name for its commits."""
    named = ["-c", "user.name=Ana", "-c", "user.email=ana@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *named, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def measured(tmp_path):
    """A clone, and a page with the table of its first commit; then come three commits, of which two change code."""
    folder = tmp_path / "whole"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for number, name in enumerate(("shared/a.py", "docs/a.md", "infra/a.py", "shared/a.py")):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"# {number}")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", name)
    return folder, page_of(git(folder, "rev-parse", "--short", "HEAD~3"))


def page_of(commit):
    return f"# Benchmarks\n\nThe last run of `make bench`, of commit {commit}, with changes: 2 cores\n"


def test_the_age_of_a_table_is_the_commits_that_changed_code(measured):
    folder, page = measured
    assert age.commits_since(folder, page) == 2
    assert age.commits_since(folder, page_of(git(folder, "rev-parse", "HEAD"))) == 0


def test_a_shallow_clone_does_not_tell_the_age_and_says_what_to_do(measured, tmp_path):
    folder, page = measured
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{folder}", "shallow")
    found = [age.has_history(each) for each in (folder, tmp_path / "shallow", tmp_path)]
    assert found == [True, False, False]
    with pytest.raises(LookupError, match="git fetch --unshallow"):
        age.commits_since(tmp_path / "shallow", page)


@pytest.mark.parametrize("commit", ["abcdef0", "abcdef0123456789abcdef0123456789abcdef01"])
def test_a_table_of_another_history_has_no_age(measured, commit):
    with pytest.raises(LookupError, match="not in this history: run `make bench` again"):
        age.commits_since(measured[0], page_of(commit))


def test_a_table_without_a_commit_has_no_age(measured):
    with pytest.raises(LookupError, match="names no commit"):
        age.commits_since(measured[0], "The last run of `make bench`, of a tree without Git: 2 cores")
