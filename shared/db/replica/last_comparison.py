"""The newest comparison of the replica with the database: a small file beside the database.

``infra.verify`` writes it. The API shows it to operators on other machines, which can't compare themselves.
"""

import json
from pathlib import Path
from typing import NamedTuple, Self

from shared.db.engine import owner_only

_LONGEST = 100_000  # bytes; what is longer was not written here


class LastComparison(NamedTuple):
    """What a comparison found.

    Args:
        at: when it ended, ms UTC.
        position: of the replica, sixteen hexadecimal digits.
        tables, rows: of the database.
        differences: the names of the tables that differ.
        damage: why the replica did not restore, if it did not.
    """

    at: int
    position: str
    tables: int
    rows: int
    differences: list[str]
    damage: str | None

    @property
    def is_equal(self) -> bool:
        return not self.differences and self.damage is None

    def write(self, database: Path) -> None:
        """Replace the file, readable by this user only.

        Raises:
            OSError: no room, or no right to write there.
        """
        owner_only.replace_text(_path(database), json.dumps(self._asdict()))

    @classmethod
    def read(cls, database: Path) -> Self | None:
        """The newest comparison; None if there is none that can be read."""
        try:
            with _path(database).open("rb") as file:
                return cls(**json.loads(file.read(_LONGEST)))
        except (OSError, ValueError, TypeError, RecursionError):
            return None


def _path(database: Path) -> Path:
    return database.with_name(f"{database.name}-compared")
