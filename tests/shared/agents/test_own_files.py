"""Files of Postroom in an agent's folder, where the agent may have put anything."""

import os
import resource
import signal

import pytest

from shared.agents import own_files
from shared.core.errors import ConfigInvalid
from tests.forks import FORKS, run_crew


def test_a_file_is_written_and_replaced(tmp_path):
    own_files.write(tmp_path, ".postroom/a/b.md", "one")
    path = own_files.write(tmp_path, ".postroom/a/b.md", "two")
    assert (path, path.read_text()) == (tmp_path / ".postroom/a/b.md", "two")


@pytest.mark.parametrize("link", [".postroom", ".postroom/a"])
def test_a_link_in_place_of_a_folder_is_refused(tmp_path, link):
    agent, other = tmp_path / "agent", tmp_path / "other"
    (agent / link).parent.mkdir(parents=True)
    other.mkdir()
    (agent / link).symlink_to(other)
    with pytest.raises(ConfigInvalid, match="is a link or no folder"):
        own_files.write(agent, ".postroom/a/b.md", "text")
    with pytest.raises(ConfigInvalid):
        own_files.make_folder(agent, ".postroom/a")
    assert list(other.iterdir()) == []


def test_a_link_in_place_of_a_file_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "secret").write_text("kept")
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent/b.md").symlink_to(tmp_path / "secret")
    own_files.write(tmp_path / "agent", "b.md", "new")
    assert (tmp_path / "secret").read_text() == "kept"
    assert (tmp_path / "agent/b.md").read_text() == "new"


def test_a_new_file_has_its_name_when_it_is_whole(tmp_path):
    """After a death on the way the next call begins anew; a link is all that the agent could put there."""
    for left in (lambda part: part.write_text("ha"), lambda part: part.symlink_to(tmp_path / "secret")):
        left(tmp_path / ".a.md.new")
        with own_files.folder(tmp_path, "", make=False) as opened:
            assert own_files.write_new(opened, "a.md", b"half or whole") == "made"
            assert own_files.write_new(opened, "a.md", b"half or whole") == "there"
            assert own_files.write_new(opened, "a.md", b"half") == "other"
        assert [each.name for each in tmp_path.iterdir()] == ["a.md"]
        (tmp_path / "a.md").unlink()


def test_a_death_before_the_second_name_is_gone_leaves_the_file(tmp_path):
    (tmp_path / "a.md").write_text("whole")
    os.link(tmp_path / "a.md", tmp_path / ".a.md.new")
    with own_files.folder(tmp_path, "", make=False) as opened:
        assert own_files.write_new(opened, "a.md", b"whole") == "there"


def test_a_disk_that_is_full_leaves_no_part_of_a_new_file(tmp_path):
    assert run_crew([FORKS.Process(target=write_too_much, args=(tmp_path,))]) == [0]
    assert list(tmp_path.iterdir()) == []


def write_too_much(folder):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    with own_files.folder(folder, "", make=False) as opened, pytest.raises(OSError, match="too large"):
        own_files.write_new(opened, "a.md", b"x" * 5000)


def test_a_file_is_removed_and_one_that_is_not_there_is_no_error(tmp_path):
    path = own_files.write(tmp_path, ".postroom/codex/a.toml", "x")
    own_files.remove(tmp_path, ".postroom/codex/a.toml")
    own_files.remove(tmp_path, ".postroom/codex/a.toml")
    assert not path.exists()


def test_the_beginning_of_a_file_is_read_with_its_size(tmp_path):
    own_files.write(tmp_path, "a/b.md", "a long text")
    (tmp_path / "link").symlink_to(tmp_path / "a/b.md")
    assert own_files.read_beginning(tmp_path, "a/b.md", most_bytes=6) == (b"a long", 11)
    assert own_files.read_beginning(tmp_path, "link", most_bytes=6) is None
    assert own_files.read_beginning(tmp_path, "gone", most_bytes=6) is None


def test_a_folder_is_cleared_and_nothing_behind_its_links(tmp_path):
    own_files.write(tmp_path, "elsewhere/a.md", "kept")
    own_files.write(tmp_path, "in/folder/a.md", "gone")
    own_files.link(tmp_path, "in/folder/below", tmp_path / "elsewhere")
    own_files.link(tmp_path, "in/link", tmp_path / "elsewhere")
    for name in ("in/folder", "in/folder", "in/link", "../elsewhere"):
        own_files.clear(tmp_path, name)
    assert list((tmp_path / "in").iterdir()) == []
    assert (tmp_path / "elsewhere/a.md").read_text() == "kept"


def test_only_a_plain_file_of_the_folder_is_read(tmp_path):
    (tmp_path / "secret").write_text("kept")
    agent = tmp_path / "agent"
    own_files.write(agent_made(agent), "in/a.png", "image")
    (agent / "in/link").symlink_to(tmp_path / "secret")
    (agent / "out").symlink_to(tmp_path)
    (agent / "in/again").hardlink_to(tmp_path / "secret")
    os.mkfifo(agent / "in/pipe")
    names = ("in/link", "in/again", "in/pipe", "out/secret", "in/gone", "in", "../secret", "no/such")
    assert [own_files.read(agent, name, most_bytes=5) for name in names] == [None] * len(names)
    assert own_files.read(agent, "in/a.png", most_bytes=5) == b"image"
    assert own_files.read_path(agent, tmp_path / "secret", most_bytes=5) is None
    assert not (agent / "no").exists()
    assert own_files.read(agent, "in/a.png", most_bytes=4) is None


def agent_made(folder):
    folder.mkdir()
    return folder
