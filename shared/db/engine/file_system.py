"""Whether SQLite in WAL mode works where the database is: its processes share memory through a file there."""

import re
from pathlib import Path

from shared.core.errors import ConfigInvalid

MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = frozenset(
    {
        *("afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2"),
        *("orangefs", "smb3", "smbfs", "fuse.ceph-fuse", "fuse.gcsfuse", "fuse.glusterfs", "fuse.mount-s3"),
        *("fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
    }
)
_SHARED_WITH_A_HOST = frozenset({"9p", "drvfs", "hgfs", "osxfs", "prl_fs", "vboxsf", "virtiofs"})
_ESCAPED = re.compile(r"\\([0-7]{3})")


def check(path: Path, mounts: Path = MOUNTS) -> None:
    """Refuse a database on a file system that other hosts share.

    Raises:
        ConfigInvalid: the file system is one of those.
    """
    kind = kind_of(path, mounts)
    if kind in _NETWORK:
        raise ConfigInvalid(
            f"{path} is on a network file system ({kind}), where SQLite in WAL mode can't work: put the database on "
            f"a disk of this host (POSTROOM_DB)"
        )


def doubt(path: Path, mounts: Path = MOUNTS) -> str | None:
    """What an operator should know of the file system; None where it is a usual one, or not known."""
    kind = kind_of(path, mounts)
    if kind is None or not (kind in _SHARED_WITH_A_HOST or kind.startswith("fuse")):
        return None
    return (
        f"{path} is on a file system ({kind}) where SQLite in WAL mode may not work: other programs may see an older "
        f"state, or damage it. Put the database on a disk of this host (POSTROOM_DB)"
    )


def kind_of(path: Path, mounts: Path) -> str | None:
    """The type of the file system that has *path*; None where the kernel does not tell."""
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    whole, found, depth = path.resolve(), None, -1
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        place = Path(_ESCAPED.sub(lambda code: chr(int(code[1], 8)), fields[4]))
        if len(place.parts) >= depth and whole.is_relative_to(place):  # a later mount covers an earlier one
            found, depth = after.split(" ")[0], len(place.parts)
    return found
