"""What every store of small objects beside a replica has: the objects that it gives, and how it fails."""

import msgspec

from shared.core.errors import PermanentError, PostroomError, RetryableError

REQUEST_SECONDS = 4.0
CLOCK = "lease.clock"  # the object whose writing tells the store's time


class StoreUnreachable(RetryableError):
    """The store did not answer, or something else answered in its place."""


class StoreRefused(PermanentError):
    """The store answered that it will not."""


class ObjectChanged(PostroomError):
    """Another writer was quicker: the object is not the version that was to be replaced. Nothing was written."""


class ListedObject(msgspec.Struct, frozen=True):
    """An object in a listing: its name, its size, and when it was written (Unix time, by the store's clock)."""

    name: str
    bytes: int
    written_at_s: float


class ReplicaObject(msgspec.Struct, frozen=True):
    """One version of an object.

    Args:
        tag: names this version.
        written_at_s: Unix time, by the store's clock.
    """

    body: bytes
    tag: str
    written_at_s: float
