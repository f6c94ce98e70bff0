"""How the rows of one table are matched between two restored copies, whose schemas may differ.

Rows are matched by the primary key. A number may be given again, after a restore or once the newest row is deleted:
so where the key is a number and the table has ``created_at``, both must be equal, or the old row counts as deleted and
the new one as inserted. Columns and tables that only one copy has are told, and make no row changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql.types import StructField

from spark_jobs.copies import OptionInvalid, ReplicaTable, describe_all
from spark_jobs.history.spans import Span

_CREATED = "created_at"


@dataclass(frozen=True, slots=True)
class MatchedTable:
    """One table in both copies.

    Args:
        fields: the columns of the later copy, then those that only the earlier one has.
        old, new: its declarations; None where the copy has no such table.
        key: the columns of the primary key, or the name of the rowid, by which rows are the same.
        also: other columns that must be equal.
        added, dropped: columns that only the later, or only the earlier copy has.
        retyped: columns of another type in the earlier copy; their old values are cast.
        incomparable: why its rows can't be matched; None: they can.
    """

    name: str
    fields: tuple[StructField, ...]
    old: ReplicaTable | None
    new: ReplicaTable | None
    key: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    retyped: tuple[str, ...] = ()
    incomparable: str | None = None

    @property
    def shared(self) -> tuple[str, ...]:
        """The columns of both copies."""
        one_sided = {*self.added, *self.dropped}
        return tuple(field.name for field in self.fields if field.name not in one_sided)

    @property
    def rowids(self) -> tuple[str | None, str | None]:
        """Names that read the rowid in the earlier and the later copy."""
        return (self.old.rowid if self.old else None, self.new.rowid if self.new else None)

    @property
    def has_ranges(self) -> bool:
        """Whether its rows can be read by ranges of rowid."""
        return all(each is None or each.rowid is not None for each in (self.old, self.new))


def match_tables(span: Span, names: Sequence[str] = (), *, has_timestamps: bool = True) -> list[MatchedTable]:
    """How the rows of each table, or of the named ones, are matched.

    Raises:
        OptionInvalid: neither copy has such a table; the message lists the tables.
    """
    old, new = (describe_all(path, has_timestamps=has_timestamps) for path in span.paths())
    there = sorted({*old, *new})
    for name in names:
        if name not in there:
            raise OptionInvalid(f"neither position has a table {name!r}; their tables: {', '.join(there)}")
    return [_match(name, old.get(name), new.get(name)) for name in names or there]


def _match(name: str, old: ReplicaTable | str | None, new: ReplicaTable | str | None) -> MatchedTable:
    for side in (new, old):
        if isinstance(side, str):
            return MatchedTable(name, (), None, None, incomparable=side)
    before, after = (side if isinstance(side, ReplicaTable) else None for side in (old, new))
    matched = _of_columns(name, before, after)
    sides = [side for side in (before, after) if side is not None]
    keys = [side.primary or ((side.rowid,) if side.rowid else ()) for side in sides]
    if () in keys:
        return replace(matched, incomparable="it has no primary key, and its rowid has no name")
    if len(set(keys)) > 1:
        was, is_ = (", ".join(key) for key in keys)
        return replace(matched, incomparable=f"its primary key was ({was}), and is ({is_}) at the later position")
    tells_reuse = _CREATED in matched.shared and all(side.key is not None for side in sides)
    return replace(matched, key=keys[0], also=(_CREATED,) if tells_reuse else ())


def _of_columns(name: str, old: ReplicaTable | None, new: ReplicaTable | None) -> MatchedTable:
    before = {field.name: field for field in (old.fields if old else ())}
    after = {field.name: field for field in (new.fields if new else ())}
    both = old is not None and new is not None
    every = {**before, **after}
    names = [*after, *(each for each in before if each not in after)]
    return MatchedTable(
        name,
        tuple(StructField(each, every[each].dataType, nullable=True) for each in names),
        old,
        new,
        added=tuple(each for each in after if both and each not in before),
        dropped=tuple(each for each in before if both and each not in after),
        retyped=tuple(each for each in after if each in before and after[each].dataType != before[each].dataType),
    )
