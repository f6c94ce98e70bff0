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
        crossed_at: only where the stream entered this epoch with this offset: the last row that both histories have.
    """

    epoch: str
    position: str
    row: int
    crossed_at: int | None = None

    def dump(self) -> dict[str, Any]:
        """As Spark stores it: a dict of strings and numbers."""
        kept: dict[str, Any] = {"epoch": self.epoch, "position": self.position, "row": self.row}
        return kept if self.crossed_at is None else kept | {"crossed_at": self.crossed_at}

    @classmethod
    def load(cls, kept: Mapping[str, Any]) -> Self:
        """The offset that :meth:`dump` gave.

        Raises:
            OffsetInvalid
        """
        try:
            return cls(str(kept["epoch"]), str(kept["position"]), int(kept["row"]), kept.get("crossed_at"))
        except (KeyError, TypeError, ValueError):
            raise OffsetInvalid(
                "the checkpoint holds an offset that is not of this source: name another folder as checkpointLocation"
            ) from None
