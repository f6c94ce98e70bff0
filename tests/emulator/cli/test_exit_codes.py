"""Every command ends as the one table says, in the usual failures, and every command's help has an example."""

import contextlib
import json
import re
import shlex
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import typer

from emulator.base.errors import ExitCode
from emulator.cli.app import app
from emulator.cli.examples import EXAMPLES
from tests.emulator.cli.test_docs import COMMANDS

ROOT = typer.main.get_command(app)
SOURCES = Path(__file__).parents[3] / "emulator"


def end(*words: str) -> int:
    """Run ``emulator WORDS``; its exit code. The tree of commands is made once: that takes longer than most of them."""
    with pytest.raises(SystemExit) as found:
        ROOT.main(list(words), prog_name="emulator")
    return int(found.value.code or 0)


def has(name: str, option: str) -> bool:
    return any(option in parameter.opts for parameter in COMMANDS[name].params)


def test_every_command_has_an_example_and_no_other_has() -> None:
    assert set(EXAMPLES) == set(COMMANDS)


def test_the_examples_stand_in_the_help(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("run", "fault add", "replica drill"):
        assert end(*name.split(), "--help") == 0
        told = capsys.readouterr().out
        assert all(f"emulator {line}" in told for line in EXAMPLES[name])


@pytest.mark.parametrize("name", COMMANDS)
def test_an_example_parses(name: str) -> None:
    for line in EXAMPLES[name]:
        assert line.startswith(name)
        with COMMANDS[name].make_context(name, shlex.split(line)[len(name.split()) :]):  # it runs nothing
            pass


def test_the_codes_stand_in_one_place() -> None:
    strays = [
        str(path)
        for path in SOURCES.glob("cli/**/*.py")
        if re.search(r"os\.EX_|typer\.Exit\([1-9]|NOT_WELL = ", path.read_text())
    ]
    assert strays == []


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_option_ends_with_2(name: str) -> None:
    if name != "exec":  # it would be an option of the command
        assert end(*name.split(), "--not-an-option") == ExitCode.UNKNOWN_WORD


# Without an emulator these do their work all the same, or name what they miss.
WITHOUT_EMULATOR = {
    "stop": ExitCode.DONE,
    "data list": ExitCode.DONE,
    "data reset": ExitCode.DONE,
    "doctor": None,  # what it finds is of this machine
    "run": None,
    "exec": None,
    "wait": None,  # for one that starts
    "clock show": ExitCode.DONE,
    "data snapshot": ExitCode.MISSING,
    "data restore": ExitCode.MISSING,
    "data seed": ExitCode.MISSING,
    "logs": ExitCode.MISSING,
    "db": ExitCode.MISSING,
    "export": ExitCode.MISSING,
    "upgrade": ExitCode.MISSING,
    "rollback": ExitCode.MISSING,
    "invoke": ExitCode.MISSING,  # its file
    "diff": ExitCode.UNAVAILABLE,
}


@pytest.mark.parametrize("name", [name for name in COMMANDS if has(name, "--state")])
def test_without_an_emulator_a_command_ends_with_69(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = WITHOUT_EMULATOR.get(name, ExitCode.UNAVAILABLE)
    if expected is None:
        return
    monkeypatch.chdir(tmp_path)
    for variable in ("POSTROOM_URL", "POSTROOM_API_TOKEN", "POSTROOM_DB", "EMULATOR_STATE", "EMULATOR_API"):
        monkeypatch.delenv(variable, raising=False)
    words = shlex.split(EXAMPLES[name][0])
    code, said = end(*words, "--state", str(tmp_path / "none")), capsys.readouterr()
    assert code == expected, said
    if expected != ExitCode.DONE:
        assert said.err.startswith("error: ")


# What the API says, and how a command ends then.
ANSWERS = {
    400: ExitCode.INVALID,
    401: ExitCode.REFUSED,
    403: ExitCode.REFUSED,
    404: ExitCode.MISSING,
    409: ExitCode.FAILED,
    500: ExitCode.FAILED,
    503: ExitCode.TRY_AGAIN,
}
# These ask the API for nothing at once: they read a file first, start a program, or are about an emulator alone.
ASKS_LATER = {"seed", "diff", "tools", "tool-servers add", "replay", "export", "verify", "import nanoclaw"}
ASKS_LATER |= {"import tinyagi", "requests list", "requests show", "requests replay", "requests export"}


@pytest.fixture(scope="module")
def refusing() -> Iterator[tuple[str, list[int]]]:
    """An API that refuses everything, with the status in the list."""
    status = [404]

    class Refuse(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.dumps({"error": "there is a reason"}).encode()
            self.send_response(status[0])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Refuse) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        with contextlib.ExitStack() as stack:
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            yield f"http://127.0.0.1:{server.server_address[1]}", status


@pytest.mark.parametrize("name", [name for name in COMMANDS if has(name, "--url") and name not in ASKS_LATER])
def test_a_refusal_of_the_api_ends_every_command_alike(
    name: str, refusing: tuple[str, list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    if name.startswith("channel"):  # its --url is another
        return
    url, status = refusing
    words = shlex.split(EXAMPLES[name][0])
    found = {}
    for status[0] in ANSWERS:
        found[status[0]], said = end(*words, "--url", url), capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("error: ")
    assert found == ANSWERS
