"""What the three witnesses of a run saw: plain data, whether processes made it or a simulated world did."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from emulator.proving.platform import Send, Written


@dataclass(frozen=True, slots=True)
class Witnesses:
    """The rows, the platform and the agents, after a run or in the middle of it.

    Attributes:
        database: the file with the rows.
        written: what people wrote, by its text; each text was written once.
        sends: the bot's calls of the platform, in order.
        turns: the lines of the agents' journal, in the order of time; see :mod:`emulator.proving.agent`.
        lost_disks_ns: when the disk was lost, on the clock of the journal. What the replica did not have yet began
            again then, by right: nobody was told of it.
        answers_to: what the agents answer to a text in the end; nothing, where they can't.
    """

    database: Path
    written: Mapping[str, Written]
    sends: Sequence[Send]
    turns: Sequence[Mapping[str, Any]] = field(default=())
    lost_disks_ns: Sequence[int] = ()
    answers_to: Callable[[str], list[str]] = field(default=lambda text: [f"re {key_of(text)}"])

    @property
    def taken(self) -> list[Send]:
        """The sends that people got."""
        return [send for send in self.sends if send.taken]

    def rows(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows of the database."""
        return query(self.database, sql, *parameters)


def query(path: Path, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Rows of a database, which can't be written this way."""
    conn = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        conn.set_busy_timeout(30_000)
        return conn.execute(sql, parameters).fetchall()
    finally:
        conn.close()


def read_journal(record: Path) -> list[dict[str, Any]]:
    """The lines of the agents that wrote to *record*; of a line that is being written, nothing."""
    path = record / "turns"
    whole, _, _ = path.read_text().rpartition("\n") if path.exists() else ("", "", "")
    return [json.loads(line) for line in whole.splitlines()]


def key_of(text: str) -> str:
    """``c03 0042``: the name of a message in its text; the agent answers ``re c03 0042``."""
    return text.partition("|")[0].strip()
