"""Where SQLite's WAL can't work, no database is made; where it may not, an operator is told."""

from pathlib import Path

import pytest

from shared.core.errors import ConfigInvalid
from shared.db.engine import file_system
from shared.db.engine.migrate import migrate


def mounted(tmp_path, kind, *more):
    """A list of mounts in which *tmp_path* is on a file system of this *kind*."""
    lines = ["22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw"]
    lines += [f"40 22 0:35 / {place} rw shared:2 - {name} server:/x rw" for place, name in ((tmp_path, kind), *more)]
    mounts = tmp_path / "mountinfo"
    mounts.write_text("\n".join(lines) + "\n")
    return mounts


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "ceph"])
def test_a_database_on_a_network_file_system_is_refused_and_not_made(tmp_path, kind):
    path = tmp_path / "data" / "p.db"
    with pytest.raises(ConfigInvalid, match=rf"p.db is on a network file system \({kind}\), where SQLite in WAL mode"):
        migrate(path, mounts=mounted(tmp_path, kind))
    assert not path.parent.exists()


@pytest.mark.parametrize("kind", ["9p", "virtiofs", "fuse.grpcfuse", "fuseblk", "vboxsf"])
def test_a_file_system_that_may_not_work_is_told_and_not_refused(tmp_path, kind):
    mounts = mounted(tmp_path, kind)
    file_system.check(tmp_path / "p.db", mounts)
    assert f"is on a file system ({kind}) where SQLite in WAL mode may not work" in file_system.doubt(
        tmp_path / "p.db", mounts
    )


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs"])
def test_a_disk_of_this_host_is_not_spoken_of(tmp_path, kind):
    mounts = mounted(tmp_path, kind)
    file_system.check(tmp_path / "p.db", mounts)
    assert file_system.doubt(tmp_path / "p.db", mounts) is None


def test_the_innermost_mount_counts_and_the_last_one_of_a_place(tmp_path):
    (tmp_path / "a b").mkdir()
    inner = (str(tmp_path / "a b").replace(" ", "\\040"), "xfs")
    mounts = mounted(tmp_path, "nfs", inner)
    assert file_system.kind_of(tmp_path / "a b" / "p.db", mounts) == "xfs"
    assert file_system.kind_of(tmp_path / "p.db", mounts) == "nfs"
    assert file_system.kind_of(tmp_path / "p.db", mounted(tmp_path, "ext4", (tmp_path, "nfs"))) == "nfs"
    assert file_system.kind_of(Path("/p.db"), mounts) == "ext4"
    assert file_system.kind_of(tmp_path / "p.db", tmp_path / "none") is None
