"""How much the folders of a turn hold, and what is deleted of it."""

import os

from shared.agents.programs.disk import DiskWatch

MB = 1024**2
NO_PROCESS = 2**30  # files that this process has open are none of the program


def watch(folder, limit):
    return DiskWatch([folder], limit, NO_PROCESS)


def test_folders_are_over_their_limit_when_all_files_together_are(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(bytes(MB))
    of_both = DiskWatch([tmp_path / "a", tmp_path / "b"], 2 * MB - 1, NO_PROCESS)
    assert of_both.is_over()
    assert not watch(tmp_path / "a", 2 * MB).is_over()


def test_it_looks_again_when_the_disk_has_less_room(tmp_path):
    looked = watch(tmp_path, 8 * MB)
    assert not looked.is_over()
    (tmp_path / "file").write_bytes(bytes(16 * MB))
    assert looked.is_over()


def test_a_link_to_a_large_file_is_small_and_a_file_without_bytes_is_not_free(tmp_path):
    (tmp_path / "agent").mkdir()
    (tmp_path / "large").write_bytes(bytes(MB))
    (tmp_path / "agent" / "link").symlink_to(tmp_path / "large")
    assert not watch(tmp_path / "agent", MB // 2).is_over()
    for number in range(10):
        (tmp_path / "agent" / str(number)).touch()
    assert watch(tmp_path / "agent", 9 * 4096).is_over()


def _later_than(at_ns, probe):
    """The first instant of the file system's clock that is later: it moves on every few milliseconds."""
    while True:
        probe.write_text("x")
        now_ns = probe.stat().st_ctime_ns
        probe.unlink()
        if now_ns > at_ns:
            return now_ns


def test_the_largest_new_files_are_deleted_until_the_folder_holds_what_it_may(tmp_path):
    (tmp_path / "old").write_bytes(bytes(4 * MB))
    since = _later_than((tmp_path / "old").stat().st_ctime_ns, tmp_path / "probe")
    sizes = {"small": MB, "large": 8 * MB, "middle": 2 * MB}
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(bytes(size))
        os.utime(tmp_path / name, ns=(0, 0))  # a program can set this back; not the time of the change
    watch(tmp_path, 7 * MB).undo(since)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["middle", "old", "small"]
