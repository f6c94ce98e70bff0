"""What a comparison of the live database with a restore has found."""

from dataclasses import asdict, dataclass
from typing import Any

from infra.litestream.comparison.table_digests import TableDifference


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of the live database with what the replica restores to.

    Args:
        position: of the replica, sixteen hexadecimal digits.
        rows, bytes: of the live database.
        kept_s: how long writers waited.
        damage: why the replica does not restore, if it does not.
        restore_s: how long the restore alone took.
    """

    replica: str
    position: str
    tables: int
    rows: int
    bytes: int
    kept_s: float
    seconds: float
    differences: tuple[TableDifference, ...] = ()
    damage: str | None = None
    restore_s: float = 0.0

    @property
    def is_equal(self) -> bool:
        return self.damage is None and not self.differences


def comparison_facts(found: Comparison) -> dict[str, Any]:
    """The comparison as the facts of a log line."""
    facts = asdict(found)
    if found.is_equal or found.damage is not None:
        del facts["differences"]
    if found.damage is None:
        del facts["damage"]
    return facts
