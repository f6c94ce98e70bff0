from infra.litestream import local_state
from infra.litestream.standby.set_aside import set_aside


def test_a_file_is_moved_with_its_log_and_nothing_is_overwritten(tmp_path):
    database = tmp_path / "p.db"
    (tmp_path / "p.db.left-1").write_text("of an earlier time")
    database.write_text("rows")
    (tmp_path / "p.db-wal").write_text("more rows")
    local_state.folder(database).mkdir()

    target = set_aside(database)

    assert target == tmp_path / "p.db.left-2"
    assert target.read_text() == "rows"
    assert (tmp_path / "p.db.left-2-wal").read_text() == "more rows"
    assert (tmp_path / "p.db.left-1").read_text() == "of an earlier time"
    assert not database.exists()
    assert not local_state.folder(database).exists()
