"""The newest position that a prefix has in the bucket."""

from shared.db.replica.lease_record import ReplicaPrefix
from shared.db.replica.object_store import ObjectStore

_AT_ONCE = 1000


def newest_position(store: ObjectStore, prefix: ReplicaPrefix, known: str) -> str:
    """The newest commit in the prefix, sixteen hexadecimal digits. What comes while the last page is read is left out:
    where the bucket lists more slowly than the other host commits, each further page would have something.

    Args:
        known: a position that the prefix has reached, from which on the files are listed; empty: from the first.

    Raises:
        StoreUnreachable, StoreRefused
    """
    files = prefix.key(store.newest_ltx_files)
    after = f"{files}{known}-{known}.ltx" if known else ""
    newest = known
    while True:
        found = store.names(files, after=after, limit=_AT_ONCE)
        newest = max([newest, *map(_position, found)])
        if len(found) < _AT_ONCE:
            return newest
        after = found[-1]


def _position(name: str) -> str:
    return name.rpartition("/")[2].partition(".")[0].rpartition("-")[2]
