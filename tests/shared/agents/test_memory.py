"""``MEMORY.md``: what of it a prompt has."""

from shared.agents import memory


def test_the_file_is_read_whole(tmp_path):
    (tmp_path / "MEMORY.md").write_text("\n- The office is closed on Fridays.\n")
    assert memory.read(tmp_path) == ("- The office is closed on Fridays.", 0)


def test_without_the_file_there_is_nothing(tmp_path):
    assert memory.read(tmp_path) == ("", 0)
    assert memory.read(tmp_path / "missing") == ("", 0)


def test_a_long_file_is_cut_after_a_whole_line_and_it_is_said_how_much_is_left_out(tmp_path):
    line = "é" * 49 + "\n"  # 99 bytes
    (tmp_path / "MEMORY.md").write_text(line * 1000)
    found = memory.read(tmp_path)
    assert set(found.text.split("\n")) == {"é" * 49}
    assert len(found.text.encode()) <= memory.MOST_BYTES
    assert found.left_out == 99_000 - len(found.text.encode())


def test_a_link_in_its_place_is_not_followed(tmp_path):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "MEMORY.md").symlink_to(tmp_path / "secret")
    assert memory.read(tmp_path) == ("", 0)
