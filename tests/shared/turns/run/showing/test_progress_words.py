import pytest

from shared.turns.run.showing import progress_words

WORDS = {
    "before any tool": ([], "working …"),
    "one file": (["Read"], "reading a file …"),
    "files, by several tools": (["Read", "Grep", "Glob"], "reading 3 files …"),
    "the newest kind, and all of it": (["Read", "Bash", "Read"], "reading 2 files …"),
    "of codex": (["commandExecution", "commandExecution"], "running 2 commands …"),
    "one of ours, by its MCP name": (["mcp__postroom__ask_user_question"], "using ask user question …"),
    "another one again": (["lookup", "lookup"], "using lookup, 2 times by now …"),
    "a name with markup": (["**[x](http://evil)**"], "using a tool …"),
    "a name without end": (["x" * 99, "y" * 99], "using 2 tools …"),
}


@pytest.mark.parametrize(("acts", "words"), WORDS.values(), ids=WORDS)
def test_the_line_tells_the_newest_kind_of_work_and_how_much_of_it(acts, words):
    assert progress_words.of(acts) == words
