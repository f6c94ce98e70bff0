"""The options of a stream.

``start``: ``oldest`` (default) or ``newest`` row. ``max_rows``: at most so many rows in a batch. ``on_hole`` and
``on_new_epoch``: ``stop`` (default) or ``cross``. ``partitions``, ``cache_dir`` and ``instants`` are as with
``spark.read``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from spark_jobs.copies import OptionInvalid

TABLES = ("agent_messages", "chat_messages", "events")
"""Those that only grow: rows are never changed, and only retention deletes them."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options, checked.

    Args:
        starts_newest: a new stream begins after the newest row; else with the oldest.
        max_rows: of one batch; None: all there are.
        crosses_holes, crosses_epochs: go on; else stop with an error.
    """

    starts_newest: bool = False
    max_rows: int | None = None
    crosses_holes: bool = False
    crosses_epochs: bool = False
    cache_dir: str | None = None
    has_timestamps: bool = True

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """From the options of Spark.

        Raises:
            OptionInvalid
        """
        return cls(
            starts_newest=_choice(options, "start", "oldest", "newest"),
            max_rows=_count(options, "max_rows"),
            crosses_holes=_choice(options, "on_hole", "stop", "cross"),
            crosses_epochs=_choice(options, "on_new_epoch", "stop", "cross"),
            cache_dir=options.get("cache_dir"),
            has_timestamps=not _choice(options, "instants", "timestamp", "millis"),
        )


def check_table(table: str) -> str:
    """*table*, if a stream can follow it.

    Raises:
        OptionInvalid
    """
    if table not in TABLES:
        raise OptionInvalid(
            f"a stream follows only tables that only grow: {', '.join(TABLES)}; read {table!r} with spark.read"
        )
    return table


def _choice(options: Mapping[str, str], name: str, default: str, other: str) -> bool:
    """Whether the option is *other*."""
    wanted = options.get(name, default)
    if wanted not in (default, other):
        raise OptionInvalid(f"{name} is {wanted!r}: write {default} or {other}")
    return wanted == other


def _count(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 10**9:
        raise OptionInvalid(f"{name} is {text!r}: write a whole number from 1 to 1000000000")
    return int(text)
