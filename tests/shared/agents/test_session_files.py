import os
from pathlib import Path

import pytest

from shared.agents import session_files
from shared.agents.session_files import NotSendable

SESSION = "session_a"


@pytest.fixture
def folder(tmp_path):
    """The folder of an agent, with an outbox of the session and a secret beside it."""
    agent = tmp_path / "agent"
    session_files.folder_of(agent, SESSION, "outbox").mkdir(parents=True)
    (tmp_path / "secret").write_text("key")
    return agent


@pytest.fixture
def outbox(folder):
    return session_files.folder_of(folder, SESSION, "outbox")


def copy(folder, wanted):
    return session_files.copy_from_outbox(folder, SESSION, wanted, folder.parent / "store" / "turn")


@pytest.mark.parametrize("prefix", ["", "./", "outbox/", f"sessions/{SESSION}/outbox/", "{outbox}/"])
def test_a_file_of_the_outbox_is_copied(folder, outbox, prefix):
    (outbox / "out").mkdir()
    (outbox / "out" / "report.pdf").write_bytes(b"%PDF")
    path = copy(folder, f"{prefix.format(outbox=outbox)}out/report.pdf")
    assert (path, path.read_bytes()) == (folder.parent / "store" / "turn" / "report.pdf", b"%PDF")
    assert [each.stat().st_mode & 0o777 for each in (path, path.parent, path.parent.parent)] == [0o600, 0o700, 0o700]


def test_two_files_of_one_name_are_both_sent(folder, outbox):
    for name in ("a", "b"):
        (outbox / name).mkdir()
        (outbox / name / "Plot.PNG" if name == "a" else outbox / name / "plot.png").write_text(name)
    assert [copy(folder, each).name for each in ("a/Plot.PNG", "b/plot.png")] == ["Plot.PNG", "plot-2.png"]


HOSTILE = {
    "a path of the host": lambda box: "/etc/passwd",
    "a way up": lambda box: "../../../../secret",
    "a way up behind the outbox": lambda box: f"{box}/../outbox/../../../../secret",
    "a link": lambda box: (box / "x").symlink_to(box.parents[3] / "secret"),
    "a link to a folder": lambda box: (box / "d").symlink_to(box.parents[3]) or "d/secret",
    "a hard link": lambda box: os.link(box.parents[3] / "secret", box / "x"),
    "a fifo": lambda box: os.mkfifo(box / "x"),
    "a folder": lambda box: (box / "x").mkdir(),
    "nothing": lambda box: "y",
    "no name": lambda box: ".",
    "a zero byte": lambda box: "x\0",
    "another session": lambda box: "../../session_b/outbox/x",
    "the inbox": lambda box: "inbox/x",
}


@pytest.mark.parametrize("prepare", HOSTILE.values(), ids=HOSTILE)
def test_nothing_else_is_sent(folder, outbox, prepare):
    other = session_files.folder_of(folder, "session_b", "outbox")
    other.mkdir(parents=True)
    (other / "x").write_text("of another session")
    wanted = prepare(outbox) or "x"
    with pytest.raises(NotSendable):
        copy(folder, wanted)
    assert not (folder.parent / "store").exists()


def test_an_outbox_that_is_a_link_is_refused(folder, outbox):
    outbox.rmdir()
    outbox.symlink_to(folder.parent)
    with pytest.raises(NotSendable):
        copy(folder, "secret")


def test_a_file_that_is_too_large_is_not_sent(folder, outbox):
    with (outbox / "x").open("wb") as file:
        file.truncate(session_files.LARGEST_BYTES + 1)
    with pytest.raises(NotSendable, match="larger than 50 MiB"):
        copy(folder, "x")


def test_an_empty_file_is_not_sent(folder, outbox):
    """No platform takes one, and the agent would be told that it is sent."""
    (outbox / "x").touch()
    with pytest.raises(NotSendable, match="it is empty"):
        copy(folder, "x")
    assert not (folder.parent / "store").exists()


class Disk:
    """What was synced, in its order: the paths below *root* and the bytes that were in a file then."""

    def __init__(self, root):
        self._root = root
        self.synced = []

    def __call__(self, fd):
        path = Path(f"/proc/self/fd/{fd}").readlink()
        self.synced.append((str(path.relative_to(self._root)), path.stat().st_size if path.is_file() else None))


@pytest.fixture
def disk(monkeypatch, tmp_path):
    disk = Disk(tmp_path)
    monkeypatch.setattr(os, "fsync", disk)
    return disk


def test_a_copy_is_on_the_disk_before_a_row_names_it(folder, outbox, disk):
    """With its name, and that of each folder that was made for it: else a power cut leaves a row without its file."""
    (outbox / "a.txt").write_text("text")
    (outbox / "b.txt").write_text("more")
    copy(folder, "a.txt")
    assert disk.synced == [(".", None), ("store", None), ("store/turn/a.txt", 4), ("store/turn", None)]
    disk.synced.clear()
    copy(folder, "b.txt")
    assert disk.synced == [("store/turn/b.txt", 4), ("store/turn", None)]


def test_a_file_of_our_own_is_on_the_disk_too(tmp_path, disk):
    session_files.new_file(tmp_path / "store" / "turn", "response.md", b"a long answer")
    assert disk.synced == [(".", None), ("store", None), ("store/turn/response.md", 13), ("store/turn", None)]


def test_a_folder_is_made_only_where_no_link_stands(tmp_path):
    (tmp_path / "sessions").symlink_to(tmp_path)
    with pytest.raises(OSError, match="sessions"), session_files.open_folder(tmp_path, SESSION, "inbox"):
        raise AssertionError("it was made behind the link")


NAMES = {
    "report.pdf": "report.pdf",
    "../../etc/passwd": "_.._etc_passwd",
    "C:\\temp\\a.txt": "C__temp_a.txt",
    "a\nb\x07\u202eexe.txt": "a_b__exe.txt",
    ".bashrc": "bashrc",
    "--rf": "rf",
    "  . . ": "file",
    "": "file",
    "x" * 300 + ".pdf": "x" * 116 + ".pdf",
    "é" * 200: "é" * 59,
    "a." + "b" * 100: "a." + "b" * 20,
    "Übung 1.tar.gz": "Übung 1.tar.gz",
}


@pytest.mark.parametrize(("given", "safe"), NAMES.items())
def test_a_name_from_outside_is_made_safe(given, safe):
    assert session_files.safe_name(given) == safe
