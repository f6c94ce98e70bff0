"""``python -m tests.readme``: run the emulator, and write what it prints into the console blocks of README.md.

The ports must be free. ``tests/test_readme.py`` compares the same session with the page, line by line.
"""

import itertools
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.emulator.harness import ROOT, clean_environment, copy_project, fetch, wait_until

PAGE = ROOT / "README.md"
_EMULATOR = ".venv/bin/emulator"
_ELSE = ("spark_jobs", "Makefile", "pyproject.toml", "constraints.txt")
_WIDTH = 120
_FAILS_ONCE = "!fail 1 again"
_ASKED = json.dumps({"message": "!say one | two"})


class Session(NamedTuple):
    """The blocks: each a command, what it printed, and so on."""

    run: str
    chat: str


@contextmanager
def started(project: Path, *options: str) -> Iterator["Running"]:
    """``emulator run`` in a copy of the project, as a person starts it; the end is the caller's."""
    copy_project(project)
    for name in _ELSE:
        (project / name).symlink_to(ROOT / name)
    (project / ".venv").symlink_to(sys.prefix)
    output = project / "output.txt"
    with (
        output.open("wb") as stream,
        subprocess.Popen(
            [_EMULATOR, "run", "--log", "pretty", *options],
            cwd=project,
            env=clean_environment(),
            stdout=stream,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            yield Running(project, output, process)
        finally:
            process.kill()


class Running:
    """The emulator of this session."""

    def __init__(self, project: Path, output: Path, process: "subprocess.Popen[bytes]") -> None:
        self.project = project
        self._output = output
        self._process = process

    def session(self) -> Session:
        """Let a person and a program write to the agent, and stop."""
        for said in ("Ready in", "sweep.done", "recurrence.done"):
            wait_until(partial(self._has_said, said), what=said)
        ours = self.say("telegram", "hello")
        self.say("telegram", _FAILS_ONCE)
        wait_until(lambda: self.said().count("deliver.sent") == 2, what="the second answer")
        run = self.said()
        return Session(f"$ make run\n{run}", ours + self._ask())

    def say(self, platform: str, text: str) -> str:
        """Write in a chat of the fake platform; the command and its answer."""
        return f"$ {_EMULATOR} chat {platform} --once '{text}'\n" + self.command(
            _EMULATOR, "chat", platform, "--once", text
        )

    def command(self, *words: str) -> str:
        """What a command prints."""
        environment = clean_environment()
        return subprocess.check_output(
            words, cwd=self.project, env=environment, stderr=subprocess.STDOUT, text=True, timeout=300
        )

    def stop(self) -> str:
        """Ctrl-C; what is printed from there on."""
        before = self.said()
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)
        after = self.said().removeprefix(before)
        late, stopping, rest = after.partition("\nStopping")  # a log line may come in between
        return f"{late}^C{stopping}{rest}"

    def said(self) -> str:
        """All that it has printed."""
        return self._output.read_text()

    def _has_said(self, part: str) -> bool:
        return part in self.said()

    def _ask(self) -> str:
        """The same over REST."""
        (url,) = re.findall(r"^  API +(http\S+)", self.said(), re.MULTILINE)
        _, accepted = fetch(f"{url}/api/message", method="POST", body=_ASKED.encode())
        path = f"/api/messages/{json.loads(accepted)['messageId']}?wait=10"
        _, story = fetch(url + path)
        return (
            f"$ curl -s localhost:3777/api/message -d '{_ASKED}'\n{accepted.decode().strip()}\n"
            f"$ curl -s 'localhost:3777{path}'\n{_told(json.loads(story))}\n"
        )


def _told(message: Mapping[str, Any]) -> str:
    """A message and its answers, the most of it left out."""
    answers = (_some(each, ("id", "message")) for each in message["responses"])
    told = _some(message, ("id", "messageId", "status"))
    return told.removesuffix("…}") + f'… "responses":[{",".join(answers)}], …}}'


def _some(fields: Mapping[str, Any], shown: Sequence[str]) -> str:
    """The fields that are *shown*, as JSON, with a mark for those between and after them."""
    parts = []
    for is_shown, names in itertools.groupby(fields, key=lambda name: name in shown):
        some = json.dumps({name: fields[name] for name in names}, separators=(",", ":"))[1:-1]
        parts.append(some if is_shown else "…")
    return "{" + ", ".join(parts).replace("…, ", "… ") + "}"


def blocks(page: str) -> dict[str, str]:
    """The console blocks of a page, by their first command."""
    found = re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return {block.partition("\n")[0]: block for block in found}


def _cut(block: str) -> str:
    """The block with lines of the log of a readable length."""
    return "".join(
        f"{line[: line.rindex(' ', 0, _WIDTH - 1)]} …\n" if line[0].isdigit() and len(line) > _WIDTH else line
        for line in block.splitlines(keepends=True)
    )


def main() -> int:
    """Write the page."""
    with tempfile.TemporaryDirectory(prefix="readme-") as folder, started(Path(folder) / "project") as running:
        run, chat = running.session()
        if "is in use" in run:
            sys.stderr.write(f"Stop what uses the ports of the emulator, and start again:\n{run}")
            return 1
        running.say("discord", "hello")
        analyse = "$ make analyse\n" + running.command("make", "-s", "analyse")
        run += running.stop()
    text = PAGE.read_text()
    for command, block in blocks(text).items():
        (made,) = (each for each in (run, chat, analyse) if each.startswith(command.partition(" --")[0]))
        text = text.replace(block, _cut(made))
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
