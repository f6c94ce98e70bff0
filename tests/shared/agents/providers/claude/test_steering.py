"""A turn of ``claude`` is told something while it runs; its lines are those of 2.1.330."""

import asyncio
import contextlib
import json

from shared.agents import registry
from shared.agents.base import Result, Text
from tests.shared.agents.providers.claude.claude_program import turn_of

CALL = '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash"}]}}'
ANSWER = '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1"}]}}'
# The program reads what it is told, and says what becomes of it: *now* before its first result, *then* after it.
TOLD = """
told = json.loads(sys.stdin.readline())
with open({given!r}, "w") as file:
    json.dump(told, file)
def say(*lines):
    for line in lines:
        print(line if line.startswith("{{") else json.dumps(
            {{"type": "command_lifecycle", "command_uuid": told["uuid"], "state": line}}), flush=True)
def result(text):
    say(json.dumps({{"type": "result", "subtype": "success", "is_error": False, "result": text}}))
say(*{now!r})
result("first")
say(*{then!r})
result("second")
"""


def steer(program, *, now=(), then=(), lines=CALL, more=""):
    """Whether the turn took it, its events after that, and what the program was told."""
    given = program.folder / "told"
    path = program.make(f"{lines}\n", then=more or TOLD.format(given=str(given), now=now, then=then))
    turn, claude = turn_of(program.folder.parent / "work", {"program": path}), registry.get("claude")

    async def go():
        async with contextlib.aclosing(claude.run(turn)) as events:
            await anext(events)  # the tool runs
            assert claude.hears(turn.token)
            telling = asyncio.create_task(claude.steer(turn.token, '<message id="m1" edits="m1">no</message>'))
            said = [event async for event in events if isinstance(event, Text | Result)]
        assert not claude.hears(turn.token)
        assert not await claude.steer(turn.token, "too late")
        return await telling, said

    is_taken, said = asyncio.run(asyncio.wait_for(go(), 30))
    return is_taken, said, json.loads(given.read_text()) if given.exists() else None


def test_what_is_told_while_a_tool_runs_joins_the_turn(program):
    is_taken, said, told = steer(program, now=["queued", ANSWER, "started", "completed"])
    assert (is_taken, said) == (True, [Result("first")])
    assert told["message"]["content"] == [{"type": "text", "text": '<message id="m1" edits="m1">no</message>'}]
    assert (told["type"], told["client_composed"]) == ("user", True)


def test_what_came_too_late_for_the_turn_has_an_answer_of_its_own_before_it_ends(program):
    is_taken, said, _ = steer(program, now=["queued", ANSWER], then=["started", "completed"])
    assert (is_taken, said) == (True, [Text("first"), Result("second")])


def test_what_the_program_refuses_is_not_taken(program):
    is_taken, said, _ = steer(program, now=["cancelled"])
    assert (is_taken, said) == (False, [Result("first")])


def test_what_the_program_says_nothing_of_is_not_taken(program):
    is_taken, said, _ = steer(program, now=[ANSWER])
    assert (is_taken, said) == (False, [Result("first")])


def test_a_turn_hears_nothing_when_no_tool_runs(program):
    path = program.make('{"type":"result","subtype":"success","is_error":false,"result":"done"}')
    turn, claude = turn_of(program.folder.parent / "work", {"program": path}), registry.get("claude")

    async def go():
        async with contextlib.aclosing(claude.run(turn)) as events:
            async for _ in events:
                assert not claude.hears(turn.token)
                assert not await claude.steer(turn.token, "no")

    asyncio.run(asyncio.wait_for(go(), 30))
