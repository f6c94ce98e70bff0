"""The manifest of a mart: which position it holds, with which settings, and which files are its tables.

It is the one object that makes a generation visible: files that it does not name are not part of the mart.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from shared.core.errors import ConfigInvalid

NAME = "manifest.json"
FORMAT = 1
WHOLE = "all"
"""In place of a day: the table is small and is written whole."""


class MartInvalid(ConfigInvalid):
    """The mart can't be used as asked: nothing is there, or its settings or its position are others."""


@dataclass(frozen=True, slots=True)
class DayFiles:
    """The rows of one table of one day.

    Args:
        generation: the last one that changed this day.
        files: paths below the manifest's folder.
    """

    rows: int
    generation: int
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableFiles:
    """One table: its columns with their Arrow types, the highest id that was read, and its days.

    Args:
        holes: rows that no run saw, because the database had pruned them before: the number of ids that are missing
            before a row of that day. The rows may be of days before it.
        unseen: rows of that day that no run saw, as their events tell. It has no row of which the event is pruned too.
    """

    columns: dict[str, str]
    last_id: int
    days: dict[str, DayFiles]
    holes: dict[str, int] = field(default_factory=dict)
    unseen: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(day.rows for day in self.days.values())


@dataclass(frozen=True, slots=True)
class Privacy:
    """What never reaches the mart.

    Args:
        without_text: columns with what people wrote are left out.
        key_check: tells whether a key is the one that people are hashed with; empty: people are not hashed.
        salt: of the digests in *forgotten*.
        forgotten: a digest for each person that was taken out.
    """

    without_text: bool = False
    key_check: str = ""
    salt: str = ""
    forgotten: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MartManifest:
    """One generation of a mart.

    Args:
        history: tells the histories of a replica apart: the epoch of its prefix and of its database.
        read_at_ms: the latest instant of a change that was read, in ms UTC.
        new_histories: for each history after the first: the generation that crossed into it, and from which instant
            rows were read again.
    """

    replica: str
    txid: str
    timestamp: str
    epoch: str
    history: str
    generation: int
    read_at_ms: int
    finished_at: str
    privacy: Privacy = field(default_factory=Privacy)
    tables: dict[str, TableFiles] = field(default_factory=dict)
    new_histories: tuple[dict[str, Any], ...] = ()

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables.values())

    @property
    def files(self) -> frozenset[str]:
        return frozenset(name for table in self.tables.values() for day in table.days.values() for name in day.files)

    def to_json(self) -> bytes:
        return (json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n").encode()

    @classmethod
    def from_json(cls, body: bytes) -> Self:
        """Raises:
        MartInvalid: it is none, or one of a later release.
        """
        try:
            facts = json.loads(body)
            if facts.pop("format") != FORMAT:
                raise MartInvalid(
                    "a later release of Postroom wrote this mart: use that one, or publish to another place"
                )
            privacy = _privacy_of(facts.pop("privacy"))
            tables = {name: _table_of(each) for name, each in facts.pop("tables").items()}
            new = tuple(facts.pop("new_histories"))
            return cls(**facts, privacy=privacy, tables=tables, new_histories=new)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise MartInvalid(f"{NAME} is damaged ({error}): publish the replica into an empty folder") from None


def _privacy_of(facts: dict[str, Any]) -> Privacy:
    return Privacy(**{**facts, "forgotten": tuple(facts["forgotten"])})


def _table_of(facts: dict[str, Any]) -> TableFiles:
    days = {
        day: DayFiles(each["rows"], each["generation"], tuple(each["files"])) for day, each in facts["days"].items()
    }
    return TableFiles(facts["columns"], facts["last_id"], days, facts.get("holes", {}), facts.get("unseen", {}))
