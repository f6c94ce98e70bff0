"""Who may replicate to a replica's URL, and under which prefix the present history is: one object, ``lease.json``.

A history (an *epoch*) has a prefix of its own below the URL, and whoever begins one writes into it alone; so two
writers can't overwrite each other's files, whatever either believes. The object is only ever replaced conditionally, so
that of two who take over, or begin a prefix, one does. Readers need only :func:`locate`.

A prefix that was just begun is empty until the first copy of the database is in it (``is_begun``): until then the state
to restore is the one before it. An URL without the object is a replica from before there were epochs, or a prefix
itself: its files lie directly there, which is the prefix ``""``.
"""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

from shared.core.errors import PermanentError
from shared.replica.object_store import ObjectStore

NAME = "lease.json"
_VERSION = 1
_REMEMBERED = 1000  # earlier places; each restore adds one, and each bad end of Litestream


class PointerUnreadable(PermanentError):
    """The object is there, and is not what we wrote."""


@dataclass(frozen=True, slots=True)
class Place:
    """A prefix and the history in it.

    Args:
        prefix: below the URL; ``""`` is the URL itself.
        epoch: ``meta.epoch`` of the database there; None when it is not known (yet).
        writer: the id of the owner who began it, and who alone writes there; ``""`` for one from before.
        began_at: ms UTC.
    """

    prefix: str
    epoch: str | None
    writer: str
    began_at: int

    def within(self, name: str) -> str:
        """The name of an object of this place, relative to the URL."""
        return f"{self.prefix}/{name}" if self.prefix else name


@dataclass(frozen=True, slots=True)
class Pointer:
    """The object's content.

    Args:
        owner: who holds the lease, over all its restarts.
        token: of this one time of taking it; whoever finds another has lost it.
        host, database: where the owner is; for people.
        acquired_at, renewed_at: ms UTC by the owner's clock; for people. Expiry goes by the store's clock.
        ttl_ms: how long it lasts without renewal.
        is_released: given back; anybody may take it at once.
        place: where the owner writes.
        is_begun: the place has a whole copy of the database.
        mark: the newest event's id at the last renewal: a file of this epoch with less is an older copy.
        earlier: places that hold whole histories, the newest last.
    """

    owner: str
    token: str
    host: str
    database: str
    acquired_at: int
    renewed_at: int
    ttl_ms: int
    is_released: bool
    place: Place
    is_begun: bool
    mark: int
    earlier: tuple[Place, ...]

    def dump(self) -> bytes:
        return (json.dumps({"version": _VERSION} | asdict(self), indent=1) + "\n").encode()

    @classmethod
    def load(cls, body: bytes) -> Self:
        """Raises: PointerUnreadable."""
        try:
            facts: dict[str, Any] = json.loads(body)
            if facts.pop("version") != _VERSION:
                raise PointerUnreadable(f"{NAME} was written by another release: read it with that, or a later one")
            facts["place"] = Place(**facts["place"])
            facts["earlier"] = tuple(Place(**place) for place in facts["earlier"])
            return cls(**facts)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise PointerUnreadable(f"{NAME} in the replica is damaged: restore an earlier version of it") from None

    def moved(self, place: Place, *, keeping: Place | None) -> Self:
        """At a new, still empty place; *keeping* is where the state is until that has a copy."""
        kept = [*self.earlier] if keeping is None or keeping in self.earlier else [*self.earlier, keeping]
        mark = self.mark if place.epoch == self.place.epoch else 0
        return replace(self, place=place, is_begun=False, mark=mark, earlier=tuple(kept[-_REMEMBERED:]))

    def without(self, place: Place) -> Self:
        """An earlier place is gone."""
        return replace(self, earlier=tuple(each for each in self.earlier if each != place))

    def begun(self, place: Place, epoch: str | None) -> Self:
        """*place* has a whole copy, of *epoch* if it was not named; nothing, if it is not ours any more."""
        if self.place != place:
            return self
        return replace(self, is_begun=True, place=replace(place, epoch=place.epoch or epoch))


def read(store: ObjectStore) -> Pointer | None:
    """The pointer of a replica; None when it has none."""
    found = store.get(NAME)
    return Pointer.load(found.body) if found else None


def places(store: ObjectStore, pointer: Pointer | None) -> list[Place]:
    """Those that hold whole histories, the newest last."""
    newest = pointer.place if pointer else Place("", None, "", 0)
    earlier = list(pointer.earlier) if pointer else []
    is_whole = (pointer is not None and pointer.is_begun) or holds(store, newest)
    return [*earlier, newest] if is_whole else earlier


def locate(store: ObjectStore, pointer: Pointer | None) -> Place | None:
    """Where to restore from; None when nothing was replicated yet."""
    found = places(store, pointer)
    return found[-1] if found else None


def holds(store: ObjectStore, place: Place) -> bool:
    """Whether Litestream has put anything there."""
    return store.first(place.within(store.ltx_files)) is not None


def at(url: str, prefix: str) -> str:
    """The URL of a prefix below the replica's *url*: what Litestream is told."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{prefix}")) if prefix else url
