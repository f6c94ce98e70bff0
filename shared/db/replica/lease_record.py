"""The lease record of a replica: who may replicate to its URL, and which prefix holds the present history.

It is one object, ``lease.json``. Each history (an *epoch*) has its own prefix below the URL, and only the machine that
began a prefix writes there. So two writers can't overwrite each other's files, whatever either believes. Every change
of the object is a conditional write: of two machines that take over, or begin a prefix, one succeeds. Readers need only
:func:`newest_prefix`.

A new prefix is empty until the first full copy of the database is in it (``has_full_copy``). Until then a restore takes
the prefix before it. A URL without the object is a replica from before there were epochs, or a prefix itself. Its files
lie directly there, which is the prefix with the path ``""``.
"""

import json
from dataclasses import dataclass, replace
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

from shared.core.errors import PermanentError
from shared.db.replica.object_store import ObjectStore

NAME = "lease.json"
_VERSION = 1
_OLD_PREFIXES_KEPT = 1000  # each restore adds one, and each bad end of Litestream


class LeaseRecordUnreadable(PermanentError):
    """The object is there, and it is not what this program writes."""


@dataclass(frozen=True, slots=True)
class ReplicaPrefix:
    """A prefix below a replica's URL, and the history in it.

    Args:
        path: below the URL; ``""`` is the URL itself.
        epoch: ``meta.epoch`` of the database there; None while it is not known.
        writer: the id of the lease owner that began the prefix and alone writes there; ``""`` if from before epochs.
        began_at: ms UTC.
    """

    path: str
    epoch: str | None
    writer: str
    began_at: int

    def key(self, name: str) -> str:
        """The name of an object under this prefix, relative to the URL."""
        return f"{self.path}/{name}" if self.path else name

    def to_json(self) -> dict[str, Any]:
        return {"prefix": self.path, "epoch": self.epoch, "writer": self.writer, "began_at": self.began_at}

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> Self:
        return cls(facts["prefix"], facts["epoch"], facts["writer"], facts["began_at"])


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The content of the object.

    Args:
        owner: the machine's file that holds the lease, over all its restarts.
        token: names this one taking of the lease; an owner that finds another token has lost it.
        host, database: where the owner is; for people.
        acquired_at, renewed_at: ms UTC by the owner's clock; for people. Expiry goes by the store's clock.
        ttl_ms: how long the lease lasts without renewal.
        is_released: the owner gave it back; any machine may take it at once.
        current: the prefix that the owner writes to.
        has_full_copy: the current prefix has a full copy of the database.
        newest_event_id: of the database at the last renewal; a file of this epoch with a lower one is an older copy.
        old_prefixes: those that hold full histories, the newest last.
    """

    owner: str
    token: str
    host: str
    database: str
    acquired_at: int
    renewed_at: int
    ttl_ms: int
    is_released: bool
    current: ReplicaPrefix
    has_full_copy: bool
    newest_event_id: int
    old_prefixes: tuple[ReplicaPrefix, ...]

    def dump(self) -> bytes:
        """The object's bytes. The names in it are those of its first version: other releases read it."""
        facts = {
            "version": _VERSION,
            "owner": self.owner,
            "token": self.token,
            "host": self.host,
            "database": self.database,
            "acquired_at": self.acquired_at,
            "renewed_at": self.renewed_at,
            "ttl_ms": self.ttl_ms,
            "is_released": self.is_released,
            "place": self.current.to_json(),
            "is_begun": self.has_full_copy,
            "mark": self.newest_event_id,
            "earlier": [prefix.to_json() for prefix in self.old_prefixes],
        }
        return (json.dumps(facts, indent=1) + "\n").encode()

    @classmethod
    def load(cls, body: bytes) -> Self:
        """The record in the object's bytes.

        Raises:
            LeaseRecordUnreadable
        """
        try:
            facts: dict[str, Any] = json.loads(body)
            if facts.pop("version") != _VERSION:
                raise LeaseRecordUnreadable(f"{NAME} was written by another release: use that release, or a later one")
            return cls(
                current=ReplicaPrefix.from_json(facts.pop("place")),
                has_full_copy=facts.pop("is_begun"),
                newest_event_id=facts.pop("mark"),
                old_prefixes=tuple(ReplicaPrefix.from_json(each) for each in facts.pop("earlier")),
                **facts,
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise LeaseRecordUnreadable(
                f"{NAME} in the replica is damaged: restore an earlier version of that object"
            ) from None

    def with_new_prefix(self, prefix: ReplicaPrefix, *, keeping: ReplicaPrefix | None) -> Self:
        """At a new, still empty prefix; *keeping* holds the newest state until the new one has a full copy."""
        old = [*self.old_prefixes] if keeping is None or keeping in self.old_prefixes else [*self.old_prefixes, keeping]
        newest_event_id = self.newest_event_id if prefix.epoch == self.current.epoch else 0
        return replace(
            self,
            current=prefix,
            has_full_copy=False,
            newest_event_id=newest_event_id,
            old_prefixes=tuple(old[-_OLD_PREFIXES_KEPT:]),
        )

    def without_old_prefix(self, prefix: ReplicaPrefix) -> Self:
        """Without an old prefix whose files are gone."""
        return replace(self, old_prefixes=tuple(each for each in self.old_prefixes if each != prefix))

    def with_full_copy(self, prefix: ReplicaPrefix, epoch: str | None) -> Self:
        """*prefix* has a full copy, of *epoch* if it had no name. Unchanged where another prefix is the current one."""
        if self.current != prefix:
            return self
        return replace(self, has_full_copy=True, current=replace(prefix, epoch=prefix.epoch or epoch))


AT_THE_URL = ReplicaPrefix("", None, "", 0)  # of a replica from before there were epochs
NO_RECORD = LeaseRecord(
    owner="",
    token="",
    host="",
    database="",
    acquired_at=0,
    renewed_at=0,
    ttl_ms=0,
    is_released=False,
    current=AT_THE_URL,
    has_full_copy=False,
    newest_event_id=0,
    old_prefixes=(),
)


def read(store: ObjectStore) -> LeaseRecord | None:
    """The lease record of a replica; None when it has none."""
    found = store.get(NAME)
    return LeaseRecord.load(found.body) if found else None


def full_prefixes(store: ObjectStore, record: LeaseRecord | None) -> list[ReplicaPrefix]:
    """The prefixes that hold full histories, the newest last."""
    record = record or NO_RECORD
    is_full = record.has_full_copy or has_files(store, record.current)
    return [*record.old_prefixes, record.current] if is_full else [*record.old_prefixes]


def newest_prefix(store: ObjectStore, record: LeaseRecord | None) -> ReplicaPrefix | None:
    """The prefix to restore from; None when nothing was replicated yet."""
    found = full_prefixes(store, record)
    return found[-1] if found else None


def has_files(store: ObjectStore, prefix: ReplicaPrefix) -> bool:
    """Whether Litestream has written anything there."""
    return store.first(prefix.key(store.ltx_files)) is not None


def prefix_url(url: str, path: str) -> str:
    """The URL of a prefix below the replica's *url*; Litestream is given this one."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{path}")) if path else url
