import pytest

from infra.traces.cursor import Cursor, path_of
from shared.core.errors import ConfigInvalid


def test_it_lies_beside_the_database_and_comes_back(tmp_path):
    file = path_of(tmp_path / "postroom.db")
    assert file.name == "postroom.db-traces"
    assert Cursor.read(file) is None
    Cursor(7, 3).write(file)
    Cursor(8, 3, "epoch_1").write(file)
    assert Cursor.read(file) == Cursor(8, 3, "epoch_1")
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("text", ["", "{}", "[1, 2]", '{"done": "x", "begin": 1}'])
def test_a_cursor_that_says_nothing_is_refused_with_the_way_on(tmp_path, text):
    file = tmp_path / "cursor"
    file.write_text(text)
    with pytest.raises(ConfigInvalid, match="remove it, and export what is missing with --since"):
        Cursor.read(file)
