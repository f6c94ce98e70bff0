"""A program in the place of ``claude``: it writes recorded lines, and keeps what it was given."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from shared.agents.access import ProgramAccess
from shared.agents.base import Turn

RECORDED = Path(__file__).parents[4] / "events/claude"
ACCESS = ProgramAccess(Path("/run/none.sock"), "http://127.0.0.1:1", "/anthropic", "/mcp", "postroom-token", False)

_PROGRAM = """\
#!{python} -IS
import json, os, sys
if "--version" in sys.argv:
    print("{version} (Claude Code)")
    raise SystemExit
given = {{"words": sys.argv[1:], "environment": dict(os.environ), "said": sys.stdin.readline()}}
with open({given!r}, "w") as file:
    json.dump(given, file)
with open({lines!r}) as file:
    sys.stdout.write(file.read())
sys.stdout.flush()
{then}
"""


class OpenDoors:
    """Doors that lead nowhere. *access*: what a program gets."""

    def __init__(self, access=ACCESS):
        self.access = access
        self.opened = []

    async def open(self, upstream, *, has_sandbox, lives_on=False):
        self.opened.append((upstream, has_sandbox))
        return self.access


@dataclass
class FakeClaude:
    """The program in a folder of its own. ``given`` is what the last run was given."""

    folder: Path

    def make(self, lines, *, then="", version="2.1.330"):
        """A program that writes these lines: the name of a recording, or text; then runs *then*."""
        text = (RECORDED / f"{lines}.jsonl").read_text() if lines.replace("_", "").isalnum() else lines
        (self.folder / "lines").write_text(text)
        facts = {"given": str(self.folder / "given"), "lines": str(self.folder / "lines")}
        program = self.folder / "claude"
        program.write_text(_PROGRAM.format(python=sys.executable, version=version, then=then, **facts))
        program.chmod(0o755)
        return str(program)

    @property
    def given(self):
        return json.loads((self.folder / "given").read_text())


def turn_of(folder, config, **more):
    """A turn without a leash."""
    values = {
        "agent": "bot",
        "model": None,
        "instructions": "Be short.",
        "config": config,
        "folder": folder,
        "session": "session_1",
        "continuation": None,
        "prompt": '<context timezone="UTC"/>\n<message id="m1" sender="Ada">hello</message>',
        "messages": (),
        "attempt": 1,
        "token": "turn_1",
        "leash": "off",
        "doors": OpenDoors(),
        **more,
    }
    return Turn(**values)
