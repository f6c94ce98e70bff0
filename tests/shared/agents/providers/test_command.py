"""The provider ``command``: a program of one's own, its output, its ends and its environment."""

import asyncio
import contextlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from shared.agents import registry
from shared.agents.base import Failed, Init, Progress, Result, Text
from tests.liveness import processes_naming
from tests.shared.agents.providers.turns import AT, run, turn


@pytest.fixture
def script(tmp_path):
    """The events of the command provider with a small Python program."""

    def make(source, *texts, env=None, arguments=(), **fields):
        program = tmp_path / "agent.py"
        program.write_text(source)
        config = {"command": [sys.executable, "-I", str(program), *arguments]}
        return turn(*texts, config={**config, **({"env": env} if env else {})}, folder=tmp_path, **fields)

    return make


LINES = {
    "plain text is one answer": ('print("hello"); print(); print("there")', [Result("hello\n\nthere")]),
    "no output is no answer": ("", [Result(None)]),
    "text and result": (
        """print('{"type": "text", "text": "one", "answers": "m0"}'); print('{"type": "result", "text": "two"}')""",
        [Text("one", "m0"), Result("two")],
    ),
    "init and progress": (
        """print('{"type": "init", "continuation": "c1"}\\n{"type": "progress", "note": "n"}'); print("done")""",
        [Init("c1"), Progress("n"), Result("done")],
    ),
    "an init without a continuation": (
        """print('{"type": "init"}\\n{"type": "init", "continuation": null}'); print("done")""",
        [Result("done")],
    ),
    "an error that may pass": (
        """print('{"type": "error", "message": "busy", "wait_ms": 1500}')""",
        [Failed("busy", True, 1500)],
    ),
    "an error that will not": (
        """print('{"type": "error", "message": "no key", "retryable": false}')""",
        [Failed("no key", False, None)],
    ),
    "a wait that is no number": (
        """print('{"type": "error", "wait_ms": NaN}')""",
        [Failed("the program reported an error")],
    ),
    "plain text is said before the result": (
        """print("words"); print('{"type": "result"}')""",
        [Text("words"), Result()],
    ),
    "nothing counts after the result": ("""print('{"type": "result", "text": "a"}'); print("b")""", [Result("a")]),
    "numbers for words": (
        """print('{"type": "text", "text": 5, "answers": [1]}'); print('{"type": "result", "text": 6}')""",
        [Text("5"), Result("6")],
    ),
    "JSON that is no event is text": (
        """print('{"a": 1, "time": 2}'); print("[1]"); print("7")""",
        [Result('{"a": 1, "time": 2}\n[1]\n7')],
    ),
    "code is text": ("""print("{"); print('  "a": 1'); print("}")""", [Result('{\n  "a": 1\n}')]),
    "JSON too deep to read is text": ("""print("[" * 5000)""", [Result("[" * 5000)]),
    "bytes that are no UTF-8": (r"""import sys; sys.stdout.buffer.write(b"caf\xe9")""", [Result("caf\ufffd")]),
    "half a character in a text": (
        r"""print('{"type": "text", "text": "a\\ud83d"}'); print('{"type": "result", "text": "\\ude00 b"}')""",
        [Text("a\ufffd"), Result("\ufffd b")],
    ),
    "half a character in a continuation": (
        r"""print('{"type": "init", "continuation": "c\\ud83d"}'); print('{"type": "result", "text": "a"}')""",
        [Init("c\ufffd"), Result("a")],
    ),
    "half a character in an error": (
        r"""print('{"type": "error", "message": "no \\ud83d"}')""",
        [Failed("no \ufffd")],
    ),
    "a whole character as two escapes": (
        r"""print('{"type": "result", "text": "\\ud83d\\ude00"}')""",
        [Result("\U0001f600")],
    ),
    "null for words": (
        """print('{"type": "text", "text": null}'); print('{"type": "error", "message": null}')""",
        [Text(""), Failed("the program reported an error")],
    ),
    "windows line ends": (
        r"""import sys; sys.stdout.buffer.write(b'{"type": "result", "text": "a"}\r\n')""",
        [Result("a")],
    ),
    "the end without a line end": (
        """import sys; sys.stdout.write('{"type": "result", "text": "a"}')""",
        [Result("a")],
    ),
}


@pytest.mark.parametrize(("source", "expected"), LINES.values(), ids=LINES)
def test_the_programs_output_becomes_events(script, source, expected):
    assert run("command", script(source)) == expected


MISREAD = {
    "a misspelt name": (
        """print("hello"); print('{"typ": 1}')""",
        'line 2 of its program\'s output is a JSON object without a "type" that is text (its fields: typ)',
    ),
    "a forgotten type": ("""print('{"text": "hi"}')""", "(its fields: text); known types: init, progress, text"),
    "an unknown type": ("""print('{"type": "txt", "text": "hi"}')""", "of the unknown type 'txt'; known types: init"),
    "a type that is no text": ("""print('{"type": [1]}')""", "line 1 of its program's output is a JSON object without"),
    "an object that breaks off": ("""print('{"type": "text", "text": "hi')""", "a JSON object that breaks off"),
    "one at the end of the output": (
        """import sys; print('{"type": "text", "text": "a"}'); sys.stdout.write('{"type": "resu')""",
        "line 2 of its program's output is a JSON object that breaks off",
    ),
}


@pytest.mark.parametrize(("source", "sentence"), MISREAD.values(), ids=MISREAD)
def test_a_line_that_is_meant_for_us_and_not_understood_reaches_no_person(script, source, sentence):
    *said, last = run("command", script(source))
    assert all(event == Text("a") for event in said)
    assert isinstance(last, Failed)
    assert (last.code, last.retryable, sentence in last.reason) == ("malformed", True, True), last.reason
    assert '"hi' not in last.reason


def test_the_question_goes_over_standard_input(script):
    source = "import sys, json; q = json.load(sys.stdin); print(json.dumps(q))"
    (result,) = run("command", script(source, "hello", "~before", continuation="c1"))
    question = json.loads(result.text)
    assert question == {
        "agent": "helper",
        "session": "session_1",
        "continuation": "c1",
        "instructions": "be kind",
        "memory": "",
        "skills": [],
        "model": None,
        "attempt": 1,
        "prompt": "the prompt",
        "messages": [
            {"id": "m0", "kind": "chat", "sender": "Ana", "text": "hello", "time": AT, "is_context": False},
            {"id": "m1", "kind": "chat", "sender": "Ana", "text": "before", "time": AT, "is_context": True},
        ],
    }


def test_a_program_is_told_what_a_message_does_to_an_earlier_one(script):
    asked = script("import sys, json; print(json.dumps(json.load(sys.stdin)['messages'][0]))", "new words")
    (message,) = asked.messages
    (result,) = run("command", replace(asked, messages=(replace(message, about=("edits", "m7")),)))
    assert json.loads(result.text)["edits"] == "m7"


def test_a_persons_text_is_never_an_argument(script):
    (result,) = run("command", script("import sys; print(sys.argv[1:])", "--help; rm -rf /", arguments=["--own"]))
    assert result.text == "['--own']"


def test_a_failing_program_is_reported_with_its_code_and_last_errors(script):
    source = 'import sys; print("half"); sys.stderr.write("x" * 9000 + "the reason"); sys.exit(3)'
    (failed,) = run("command", script(source))
    assert failed.retryable
    assert failed.reason.startswith("the program ended with code 3: ")
    assert failed.reason.endswith("the reason")
    assert len(failed.reason) < 600


def test_a_killed_program_is_reported_with_its_signal(script):
    (failed,) = run("command", script("import os; os.kill(os.getpid(), 9)"))
    assert failed == Failed("the program was ended by signal 9: nothing on standard error", code="killed")


def test_a_program_that_does_not_read_its_input_is_no_failure(script):
    assert run("command", script('import os; os.close(0); print("fine")', "x" * 1_000_000)) == [Result("fine")]


def test_an_endless_line_is_cut_off(script):
    (failed,) = run("command", script('import sys\nwhile True: sys.stdout.write("x" * 65536)'))
    assert (failed.reason, failed.code) == ("the program wrote a line of more than 1048576 bytes", "output_limit")


def test_endless_output_is_cut_off(script):
    *_, failed = run("command", script('while True: print("x" * 65536)'))
    assert failed.reason.startswith("the program wrote more than 8388608 bytes, so Postroom ended it")
    assert failed.code == "output_limit"


CONFIGS = {
    "nothing": ({}, "agent 'helper': config for provider 'command' is wrong: command: is missing"),
    "an empty command": ({"command": []}, "command: should have at least 1 item"),
    "a shell line": ({"command": "rm -rf /"}, "command: should be a valid list"),
    "a misspelt key": ({"command": ["true"], "environment": {}}, "environment: is not a known name"),
}


@pytest.mark.parametrize(("config", "sentence"), CONFIGS.values(), ids=CONFIGS)
def test_a_wrong_config_fails_permanently_with_a_sentence(tmp_path, config, sentence):
    (failed,) = run("command", turn(config=config or {"env": {}}, folder=tmp_path))
    assert not failed.retryable
    assert sentence in failed.reason


def test_a_program_that_can_not_start_may_be_tried_again(tmp_path):
    (failed,) = run("command", turn(config={"command": ["/no/such/program"]}, folder=tmp_path))
    assert failed == Failed("can't start '/no/such/program': No such file or directory", code="not_started")


def test_the_programs_environment_holds_none_of_our_settings(script, monkeypatch, tmp_path):
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", "hunter2")
    monkeypatch.setenv("POSTROOM_TICK_SECRET", "hunter2")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    source = "import os, json; print(json.dumps([dict(os.environ), os.getcwd()]))"
    (result,) = run("command", script(source, env={"OWN": "value"}))
    environment, folder = json.loads(result.text)
    assert "hunter2" not in str(environment)
    assert set(environment) <= {
        "PATH",
        "HOME",
        "LANG",
        "PWD",
        "TZ",
        "OWN",
        "POSTROOM_AGENT_ID",
        "POSTROOM_TURN",
        "LC_CTYPE",
    }
    assert (environment["OWN"], environment["POSTROOM_AGENT_ID"]) == ("value", "helper")
    assert Path(folder) == tmp_path


FAMILY = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)", sys.argv[0]])
print('{"type": "init", "continuation": "c"}', flush=True)
time.sleep(300)
"""


@pytest.mark.parametrize("how", ["cancelled", "closed"])
def test_a_turn_that_ends_early_leaves_no_process_or_grandchild(script, how, tmp_path):
    what = script(FAMILY)

    async def begin():
        begun = asyncio.get_running_loop().create_future()

        async def listen():
            async with contextlib.aclosing(registry.get("command").run(what)) as events:
                async for event in events:
                    begun.set_result(event.continuation)
                    if how == "closed":
                        return

        task = asyncio.create_task(listen())
        await asyncio.wait_for(begun, 60)
        if how == "cancelled":
            assert processes_naming(str(tmp_path))
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(begin())
    assert processes_naming(str(tmp_path)) == []


def test_a_grandchild_that_holds_the_output_open_does_not_delay_the_turn(script, tmp_path):
    source = FAMILY.replace("time.sleep(300)\n", "") + """print('{"type": "result", "text": "done"}', flush=True)\n"""
    assert run("command", script(source), timeout_s=60)[-1] == Result("done")
    assert processes_naming(str(tmp_path)) == []


def test_no_descriptor_stays_open(script):
    what, descriptors = script("print('x')"), Path("/proc/self/fd")
    run("command", what)
    before = len(list(descriptors.iterdir()))
    for _ in range(5):
        run("command", what)
    assert len(list(descriptors.iterdir())) <= before
