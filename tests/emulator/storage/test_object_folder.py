"""Objects are files that a crash leaves whole, and no key leaves its bucket."""

from pathlib import Path

import pytest

from emulator.storage.object_folder import ObjectFolder, StoredObject

METADATA = {"x-amz-meta-litestream-timestamp": "2026-11-21T13:00:00Z"}


def item(key: str) -> StoredObject:
    return StoredObject(key, 0, METADATA, "e", 1.5)


def facts(found: StoredObject | None) -> tuple[object, ...] | None:
    return found and (found.key, found.size, found.metadata, found.etag, found.modified_at)


def test_an_object_is_read_back_unchanged_also_by_the_next_process(tmp_path: Path) -> None:
    folder = ObjectFolder(tmp_path)
    folder.add_bucket("bucket")

    folder.put("bucket", item("db/0000/1-1.ltx"), [b"\x00body\n"])

    for each in (folder, ObjectFolder(tmp_path)):
        assert facts(each.find("bucket", "db/0000/1-1.ltx")) == ("db/0000/1-1.ltx", 6, METADATA, "e", 1.5)
        found = each.read("bucket", "db/0000/1-1.ltx")
        assert found is not None
        assert (facts(found[0]), found[1]) == (facts(each.find("bucket", "db/0000/1-1.ltx")), b"\x00body\n")
        assert (each.read("bucket", "db/0000/1-1.ltx", 1, 3) or ())[1] == b"bod"
    assert folder.read("bucket", "other") is None


@pytest.mark.parametrize("key", ["a", "a/b", "../../etc/passwd", "x" * 900, "ü/§ %2F", "a.object"])
def test_no_key_leaves_the_bucket_or_collides_with_another(tmp_path: Path, key: str) -> None:
    folder = ObjectFolder(tmp_path / "root")
    folder.add_bucket("bucket")

    folder.put("bucket", item(key), [b"1"])
    folder.put("bucket", item("other"), [b"2"])

    again = ObjectFolder(tmp_path / "root")
    assert {name: (again.read("bucket", name) or ())[1] for name in again.buckets["bucket"]} == {
        key: b"1",
        "other": b"2",
    }
    assert len(list((tmp_path / "root" / "bucket").iterdir())) == 2


def test_half_written_files_of_a_crash_are_removed(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket" / "x.object.tmp").write_bytes(b"half")

    assert ObjectFolder(tmp_path).buckets == {"bucket": {}}
    assert list((tmp_path / "bucket").iterdir()) == []


@pytest.mark.parametrize("bucket", ["..", ".", "", "a/b", "a..b"])
def test_no_bucket_name_leaves_the_folder(tmp_path: Path, bucket: str) -> None:
    beside = tmp_path / "postroom.db"
    beside.write_bytes(b"rows")
    folder = ObjectFolder(tmp_path / "s3")
    with pytest.raises(ValueError, match="bucket"):
        folder.remove_bucket(bucket)
    assert beside.read_bytes() == b"rows"
