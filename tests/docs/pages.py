"""The pages of the documentation, and the command blocks in them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
COMMANDS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "infra/README.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
]
_BLOCK = re.compile(r"(?:^ *<!-- ([^\n]+) -->\n)?^( *)```(console|sh)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_EMULATOR = re.compile(r"\$ (?:\.venv/bin/)?emulator ")


class Block(NamedTuple):
    """A block: the comment before it, and its lines."""

    mark: str
    lines: list[str]

    @property
    def commands(self) -> list[str]:
        """The lines that a person types; in a block of a shell all."""
        typed = [line for line in self.lines if line.startswith("$ ")]
        return typed or self.lines

    @property
    def is_of_emulator(self) -> bool:
        """Whether all that is typed are commands of the emulator, which can be run against a running one."""
        return all(_EMULATOR.match(line) for line in self.commands)


def blocks(page: Path) -> Iterator[Block]:
    """The command blocks of the page, in its order."""
    for mark, indent, _, text in _BLOCK.findall(page.read_text()):
        yield Block(mark, [line.removeprefix(indent) for line in text.splitlines()])
