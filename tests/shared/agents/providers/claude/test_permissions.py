"""A turn of ``claude`` asks whether it may use a tool; its lines are those of 2.1.330."""

import asyncio
import contextlib
import json

import pytest

from shared.agents import registry
from shared.agents.access import PermissionAnswer
from shared.agents.base import Failed, Result
from shared.agents.programs.limits import Limits
from shared.agents.providers.claude import config as configs
from shared.agents.providers.claude import invocation
from tests.serving import leap
from tests.shared.agents.providers.claude.claude_program import ACCESS, turn_of

# As recorded, without the suggestions, which nobody takes.
WRITE = {
    "type": "control_request",
    "request_id": "r1",
    "request": {
        "subtype": "can_use_tool",
        "tool_name": "Write",
        "input": {"file_path": "/home/y.txt", "content": "a\nb"},
        "description": "y.txt",
        "permission_suggestions": [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}],
        "tool_use_id": "toolu_0001",
    },
}
# The program reads the answer to each of its questions, keeps it, and ends.
READS = """
with open({given!r}, "w") as file:
    for _ in range({count}):
        file.write(sys.stdin.readline())
print(json.dumps({{"type": "result", "subtype": "success", "is_error": False, "result": "done"}}), flush=True)
"""


class Approver:
    """Answers each question; ``asked`` are all of them."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    async def ask(self, asked):
        self.asked.append(asked)
        leap(600)  # longer than the program's limits
        await asyncio.sleep(0)
        return self.answers.pop(0)


def asks(program, *questions, approver, replies=None, then=None, **config):
    """The end of the turn, and what the program was told."""
    given = program.folder / "told"
    then = then or READS.format(given=str(given), count=len(questions) if replies is None else replies)
    path = program.make("".join(json.dumps(each) + "\n" for each in questions), then=then)
    limits = Limits(idle_ms=60_000, tool_ms=60_000)
    turn = turn_of(program.folder.parent / "work", {"program": path, **config}, permissions=approver, limits=limits)

    async def go():
        async with contextlib.aclosing(registry.get("claude").run(turn)) as events:
            return [event async for event in events][-1]

    end = asyncio.run(asyncio.wait_for(go(), 10_000))
    return end, [json.loads(line)["response"] for line in given.read_text().splitlines()] if given.exists() else []


def test_a_yes_names_no_input_so_the_program_runs_what_was_shown(program):
    approver = Approver(PermissionAnswer(True))
    end, [told] = asks(program, WRITE, approver=approver)
    assert end == Result("done")
    assert told == {"subtype": "success", "request_id": "r1", "response": {"behavior": "allow"}}
    [asked] = approver.asked
    assert (asked.tool, asked.arguments, asked.call) == ("Write", WRITE["request"]["input"], "toolu_0001")
    assert asked.covers == {"file_path": "/home/y.txt"}


def test_a_no_reaches_the_program_with_its_reason(program):
    _, [told] = asks(program, WRITE, approver=Approver(PermissionAnswer(False, "An approver refused it.")))
    assert told["response"] == {"behavior": "deny", "message": "An approver refused it."}


def test_without_anybody_to_ask_it_is_a_no(program):
    _, [told] = asks(program, WRITE, approver=None)
    assert told["response"]["behavior"] == "deny"


def test_a_shell_can_not_be_allowed_for_ever(program):
    command = json.loads(json.dumps(WRITE).replace('"Write"', '"Bash"'))
    approver = Approver(PermissionAnswer(True))
    asks(program, command, approver=approver)
    assert approver.asked[0].covers is None


def test_a_question_of_another_kind_is_refused_and_the_program_does_not_hang(program):
    other = {"type": "control_request", "request_id": "r2", "request": {"subtype": "elicitation", "message": "Who?"}}
    _, [told] = asks(program, other, approver=Approver())
    assert (told["subtype"], told["request_id"]) == ("error", "r2")


TAKES_BACK = """
import time
while not os.path.exists({flag!r}):
    time.sleep(0.01)
print(json.dumps({{"type": "control_cancel_request", "request_id": "r1"}}), flush=True)
print(json.dumps({{"type": "result", "subtype": "success", "is_error": False, "result": "done"}}), flush=True)
"""


def test_a_question_that_the_program_takes_back_is_answered_no_more(program):
    flag = program.folder / "asked"

    class Slow(Approver):
        async def ask(self, asked):
            flag.touch()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.asked.append("taken back")
                raise

    approver = Slow()
    end, told = asks(program, WRITE, approver=approver, then=TAKES_BACK.format(flag=str(flag)))
    assert (end, told, approver.asked) == (Result("done"), [], ["taken back"])


@pytest.mark.parametrize(
    ("config", "mode", "allowed"),
    [
        ({}, ["dontAsk"], None),
        ({"tools": "all", "ask": "never"}, ["dontAsk"], "Read,Edit,Write,NotebookEdit,Glob,Grep,Bash,TodoWrite"),
        ({"tools": "all"}, ["default", "--permission-prompt-tool", "stdio"],
         "Read,Edit,Write,NotebookEdit,Glob,Grep,Bash,TodoWrite"),
        ({"tools": "all", "ask": "shell"}, ["default", "--permission-prompt-tool", "stdio"],
         "Read,Edit,Write,NotebookEdit,Glob,Grep,TodoWrite"),
        ({"tools": "files", "ask": "changes"}, ["default", "--permission-prompt-tool", "stdio"], "Read(./**)"),
        ({"tools": "files"}, ["default", "--permission-prompt-tool", "stdio"], "Read(./**),Edit(./**)"),
        ({"tools": "files", "ask": "never", "readable": ["/opt/a"]}, ["dontAsk"],
         "Read(./**),Read(//opt/a),Read(//opt/a/**),Edit(./**)"),
    ],
)  # fmt: skip
def test_the_config_says_what_is_asked(config, mode, allowed, tmp_path):
    words = invocation._words(configs.read(config), turn_of(tmp_path, config), ACCESS)
    at = words.index("--permission-mode") + 1
    assert words[at : at + len(mode)] == mode
    assert (words[words.index("--allowedTools") + 1] if "--allowedTools" in words else None) == allowed


def test_a_program_that_hangs_after_the_answer_is_ended_all_the_same(program):
    class Waits(Approver):
        async def ask(self, asked):
            answer = await super().ask(asked)
            asyncio.get_running_loop().call_later(0.3, leap, 61)
            return answer

    end, _ = asks(program, WRITE, approver=Waits(PermissionAnswer(True)), replies=2)
    assert isinstance(end, Failed)
    assert end.code == "idle_timeout"


def test_a_half_character_of_a_question_is_replaced(program):
    approver = Approver(PermissionAnswer(True))
    question = {**WRITE, "request": {**WRITE["request"], "input": {"file_path": "/home/y.txt", "content": "a\ud83d"}}}
    asks(program, question, approver=approver)
    assert approver.asked[0].arguments["content"] == "a\ufffd"
