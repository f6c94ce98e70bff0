"""Removes the old prefixes of a replica: each restore leaves a full copy behind, and each bad end of Litestream.

An old prefix goes when the prefix after it is older than ``POSTROOM_REPLICA_RETENTION_MS``. By then no reader is
promised a position in it. The oldest goes first, some files at a time. It stays in ``lease.json`` until its last file
is gone, so a machine that is interrupted, or that takes over, goes on with it. An old prefix never becomes the current
one again.
"""

from itertools import pairwise

from shared.db.replica import lease_record
from shared.db.replica.lease_record import LeaseRecord, ReplicaPrefix
from shared.db.replica.object_store import ObjectStore

_AT_ONCE = 500


def oldest_removable(there: LeaseRecord, now_ms: int, retention_ms: int) -> ReplicaPrefix | None:
    """The oldest prefix to remove, if any. The one at the URL itself, from before there were epochs, stays.

    Args:
        retention_ms: 0 keeps all.
    """
    if retention_ms == 0 or not there.has_full_copy:
        return None
    for prefix, after in pairwise((*there.old_prefixes, there.current)):
        if after.began_at > now_ms - retention_ms:
            return None
        if prefix.path not in ("", there.current.path):
            return prefix
    return None


def remove_files(store: ObjectStore, there: LeaseRecord, prefix: ReplicaPrefix, limit: int = _AT_ONCE) -> bool:
    """Delete up to *limit* files of an old prefix; whether none is left."""
    if not lease_record.has_files(store, there.current):
        return False  # the current prefix was emptied by hand: the old one may be all that is left
    names = store.names(prefix.key(""), limit=limit)
    for name in names:
        store.delete(name)
    return len(names) < limit
