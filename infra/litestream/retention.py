"""Earlier places of a replica: whole copies that each restore, and each bad end of Litestream, leaves behind.

One is removed when the place after it is older than ``POSTROOM_REPLICA_RETENTION_MS``: by then nobody is promised a
position in it any more. The oldest goes first, some files at a time, and is named in ``lease.json`` until the last of
them is gone; so whoever is interrupted, or takes over, goes on with it. None of them becomes the present one again.
"""

from collections.abc import Mapping
from itertools import pairwise

from shared.core.errors import ConfigInvalid
from shared.replica import lease_record
from shared.replica.lease_record import Place, Pointer
from shared.replica.object_store import ObjectStore

DAY_MS = 86_400_000
KEPT_MS = 14 * DAY_MS
LEAST_MS = 7 * DAY_MS  # what infra/litestream.yml keeps of the present one
_AT_ONCE = 500


def retention_from(environ: Mapping[str, str]) -> int:
    """``POSTROOM_REPLICA_RETENTION_MS``; 0: for ever.

    Raises:
        ConfigInvalid
    """
    text = environ.get("POSTROOM_REPLICA_RETENTION_MS") or str(KEPT_MS)
    if not (text.isdecimal() and text.isascii()) or 0 < int(text) < LEAST_MS:
        raise ConfigInvalid(
            f"POSTROOM_REPLICA_RETENTION_MS: {text!r} is neither 0 (earlier prefixes stay) nor at least {LEAST_MS}, "
            f"seven days, which readers may go back"
        )
    return int(text)


def removable(there: Pointer, now_ms: int, kept_ms: int) -> Place | None:
    """The oldest place to remove, if there is any. One from before there were epochs, at the URL itself, stays."""
    if kept_ms == 0 or not there.is_begun:
        return None
    for place, after in pairwise((*there.earlier, there.place)):
        if after.began_at > now_ms - kept_ms:
            return None
        if place.prefix not in ("", there.place.prefix):
            return place
    return None


def remove_some(store: ObjectStore, there: Pointer, place: Place, limit: int = _AT_ONCE) -> bool:
    """Delete files of *place*, an earlier one; whether none is left."""
    if not lease_record.holds(store, there.place):
        return False  # somebody emptied the present one: what is left may be all that there is
    names = store.names(place.within(""), limit=limit)
    for name in names:
        store.delete(name)
    return len(names) < limit
