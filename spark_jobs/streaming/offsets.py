"""The offset of a stream, as Spark keeps it in the checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from spark_jobs.streaming.errors import OffsetInvalid


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a stream has read.

    Args:
        epoch: ``meta.epoch`` of the database; empty where it has none.
        position: of the replica, as :attr:`spark_jobs.replicas.Pin.position`: it has all rows up to *row*.
        row: the id of the last row.
        table: whose rows; None in an offset of a release that did not name it.
        crossed_at: only where the stream entered this epoch with this offset: the last row that both histories have.
    """

    epoch: str
    position: str
    row: int
    crossed_at: int | None = None
    table: str | None = None

    def dump(self) -> dict[str, Any]:
        """As Spark stores it: a dict of strings and numbers."""
        kept: dict[str, Any] = {"epoch": self.epoch, "position": self.position, "row": self.row}
        others = {"crossed_at": self.crossed_at, "table": self.table}
        return kept | {name: value for name, value in others.items() if value is not None}

    @classmethod
    def load(cls, kept: Mapping[str, Any], table: str) -> Self:
        """The offset that :meth:`dump` gave.

        Args:
            table: which the stream follows.

        Raises:
            OffsetInvalid: it is not of this source, or of another table.
        """
        if kept.get("table", table) != table:
            raise OffsetInvalid(
                f"the checkpoint belongs to a stream of the table {kept['table']!r}, and this one follows {table!r}, "
                "whose rows have other ids: name another folder as checkpointLocation"
            )
        try:
            return cls(
                str(kept["epoch"]), str(kept["position"]), int(kept["row"]), kept.get("crossed_at"), kept.get("table")
            )
        except (KeyError, TypeError, ValueError):
            raise OffsetInvalid(
                "the checkpoint has an offset that is not of this source: name another folder as checkpointLocation"
            ) from None
