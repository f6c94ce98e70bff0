"""The owner of a lease: which machine it is, and at which place it runs.

The id is in a file beside the database, so it stays over restarts and reboots: it names the writer of a prefix. A disk
can be cloned with that file, so the id alone gives nobody the lease. The *place* tells clones apart: the boot id of
the kernel, and the device and inode of the file. Among all that runs at the same time, no two files have the same
place. Two machines have two boot ids, even if their disks and machine ids are the same. Two clones of a volume on one
machine are two devices. Containers see the boot id of their host, so a container that is started again there with the
same volume is at the same place.

An owner that finds its own id and its own place in the record knows that its earlier process is dead: one process of a
machine at a time has the lock of the file (``lock_replication``). With its own id and another place it can't know. It
may be the same machine after a reboot, or a clone; so it waits until the lease has run out.

The place is a part of the token in ``lease.json``, where earlier releases have random digits alone.
"""

import contextlib
import hashlib
import json
import os
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

from shared.core import ids
from shared.db.engine.owner_only import make_folder
from shared.db.replica.lease_record import LeaseRecord

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_THIS_PROCESS = secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class LeaseOwner:
    """The taker of a lease: an id that stays over restarts, and where the owner is, for people.

    Args:
        place: differs between any two owners that run at the same time.
    """

    id: str
    host: str
    database: str
    place: str = ""

    def took(self, record: LeaseRecord) -> bool:
        """Whether the newest taking in *record* was this owner's, at this place."""
        place, dot, _ = record.token.partition(".")
        return record.owner == self.id and bool(dot) and place == self.place


def new_token(owner: LeaseOwner) -> str:
    """The name of one taking of the lease by *owner*."""
    return f"{owner.place}.{secrets.token_hex(8)}"


def owner_of(path: Path, database: Path, boot_id: Path = BOOT_ID) -> LeaseOwner:
    """The owner whose id is in the file *path*; a new one where there is no file, or where it is a copy.

    The file names its own inode: a file that was copied, unpacked or synchronised has another.
    """
    try:
        with path.open() as file:
            facts, status = json.load(file), os.fstat(file.fileno())
            if facts["inode"] == status.st_ino:
                return _owner(str(facts["id"]), database, status, boot_id)
    except (OSError, ValueError, KeyError, TypeError):
        pass  # a new owner: at worst it waits until its own lease has run out
    make_folder(path.parent)
    fresh = path.with_name(path.name + ".tmp")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as file:
        status = os.fstat(handle)
        owner = _owner(ids.new("owner"), database, status, boot_id)
        json.dump({"id": owner.id, "inode": status.st_ino}, file)
        file.flush()
        os.fsync(handle)
    fresh.replace(path)
    return owner


def place_of(file: os.stat_result, boot_id: Path = BOOT_ID) -> str:
    """The place of an owner whose file is *file*. Nobody can tell the boot id from it."""
    kernel = _THIS_PROCESS  # where no kernel says its boot id, each start waits for the lease of the one before
    with contextlib.suppress(OSError):
        kernel = boot_id.read_text().strip() or kernel
    return hashlib.blake2s(f"{kernel} {file.st_dev} {file.st_ino}".encode(), digest_size=8).hexdigest()


def _owner(name: str, database: Path, file: os.stat_result, boot_id: Path) -> LeaseOwner:
    return LeaseOwner(name, socket.gethostname(), str(database), place_of(file, boot_id))
