"""The provider ``echo``: it repeats, and obeys its commands."""

from dataclasses import replace

import pytest

from shared.agents.base import Failed, Init, NamedFile, Result, Text
from shared.agents.providers import echo_tools
from tests.shared.agents.providers.turns import run, turn

ECHO = {
    "plain words": ("hello", 1, [Text("You said: hello", "m0")]),
    "several things": ("!say one | two |  | three", 1, [Text("one", "m0"), Text("two", "m0"), Text("three", "m0")]),
    "slow": ("!slow 0 done", 1, [Text("done", "m0")]),
    "slow without words": ("!slow 0", 1, [Text("That took 0 s.", "m0")]),
    "slow into the past": ("!slow -5", 1, [Text("That took 0 s.", "m0")]),
    "slow by no number": ("!slow nan", 1, [Text("That took 0 s.", "m0")]),
    "fail twice, the second time": ("!fail 2 fine", 2, [Failed("failed on request (attempt 2)")]),
    "fail twice, the third time": ("!fail 2 fine", 3, [Text("fine", "m0")]),
    "fail twice, wordless": ("!fail 2", 3, [Text("Attempt 3 worked.", "m0")]),
    "fail for ever": ("!fail", 99, [Failed("failed on request (attempt 99)")]),
    "reject": ("!reject", 1, [Failed("rejected on request", retryable=False)]),
    "silent": ("!silent", 1, []),
    "an unknown command is words": ("!dance", 1, [Text("You said: !dance", "m0")]),
    "a command in the middle is words": ("say !fail", 1, [Text("You said: say !fail", "m0")]),
}


@pytest.mark.parametrize(("text", "attempt", "expected"), ECHO.values(), ids=ECHO)
def test_echo_obeys_its_commands(text, attempt, expected):
    events = run("echo", turn(text, attempt=attempt))
    assert events[0] == Init("1")
    ended = [] if isinstance(events[-1], Failed) else [Result()]
    assert events[1:] == expected + ended


def test_echo_names_files_and_why_one_is_not_there():
    there, missing = NamedFile("photo", "a.jpg", "inbox/a.jpg"), NamedFile("voice", "", why_not="too large")
    asked = turn("")
    (message,) = asked.messages
    events = run("echo", replace(asked, messages=(replace(message, files=(there, missing)),)))
    assert events[1] == Text("You sent: photo a.jpg, voice (too large)", "m0")


def test_echo_answers_each_message_that_asks_and_no_context():
    events = run("echo", turn("~background", "one", "two"))
    assert events[1:] == [Text("You said: one", "m1"), Text("You said: two", "m2"), Result()]


def test_echo_counts_its_turns_through_the_continuation():
    events = run("echo", turn("!count", continuation="4"))
    assert events[:2] == [Init("5"), Text("This is turn 5 of our session.", "m0")]


def test_echo_starts_over_after_another_provider():
    assert run("echo", turn(continuation="thread_abc"))[0] == Init("1")


def test_echo_knows_every_command_that_it_lists():
    (text,) = [event.text for event in run("echo", turn("!help")) if isinstance(event, Text)]
    listed = [line.split()[0] for line in text.splitlines() if line.startswith("!")]
    assert [name for name in echo_tools.NAMES if name not in text] == []
    for command in listed:
        answer = run("echo", turn(f"{command} 0", attempt=9))
        assert Text(f"You said: {command} 0", "m0") not in answer
