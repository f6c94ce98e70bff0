from spark_jobs.streaming.histories import Copy, last_common_row


def test_rows_are_common_until_the_first_that_differs(new_primary, tmp_path):
    copies = []
    for name, types in (("old", "abcd"), ("new", "abxd")):
        primary = new_primary(tmp_path / f"{name}.db", f"file://{tmp_path}/{name}")
        primary.happen(*types[:2])
        if name == "new":
            primary.execute("DELETE FROM events WHERE id = 1")
        primary.happen(types[2])
        primary.replicate()
        copies.append(Copy.newest(primary.url, str(tmp_path / "cache")))
    old, new = copies
    assert last_common_row(old, new, "events", 3) == 2
    assert last_common_row(old, new, "events", 1) is None
    assert old.ends("events") == (1, 3)
    assert new.ends("events") == (2, 3)
    assert new.count("events", 0, 3) == 2
    assert new.row_after("events", 0, 1) == 2
    assert new.ends("chat_messages") is None
    assert Copy.at(old.pin.url, "ff@2026-01-01T00:00:00Z", str(tmp_path / "cache")) is None


def test_histories_of_two_schemas_are_compared_by_the_columns_that_both_have(new_primary, tmp_path):
    copies = []
    for name in ("old", "new"):
        primary = new_primary(tmp_path / f"{name}.db", f"file://{tmp_path}/{name}")
        primary.happen("a")
        if name == "new":
            primary.execute("ALTER TABLE events ADD COLUMN extra TEXT")
        primary.replicate()
        copies.append(Copy.newest(primary.url, str(tmp_path / "cache")))
    assert last_common_row(*copies, "events", 1) == 1
