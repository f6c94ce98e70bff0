"""The replica of a run: what it restores to, beside the rows of the database."""

import asyncio
from pathlib import Path

from emulator.proving.child import until
from emulator.proving.host import AWS, Post, restore
from emulator.proving.promises import differing_tables
from shared.core.errors import NotReplicated
from shared.db.replica.sync import sync

_RESTORE_LIMIT_S = 120


def differences(post: Post, folder: Path, timeout_s: float = 60.0) -> list[str]:
    """Stop all writers and restore the replica into *folder*; what is not the same there."""
    post.stop(*[name for name in post.children if name not in ("litestream", "s3")])
    until("the replica to have everything", lambda: _is_synced(post), timeout_s)
    copy = folder / "restored.db"
    copy.unlink(missing_ok=True)
    environment = {**AWS, "POSTROOM_REPLICA_URL": post.replica_url}
    is_done, said = restore(environment, "--output", str(copy), limit_s=_RESTORE_LIMIT_S)
    if not is_done:
        return [f"the replica does not restore: {said[-2000:]}"]
    return [f"{table} is not the same in the replica" for table in differing_tables(post.db, copy)]


def _is_synced(post: Post) -> bool:
    try:
        asyncio.run(sync(post.litestream_socket, post.db, 10))
    except NotReplicated:
        return False
    return True
