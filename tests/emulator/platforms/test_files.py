"""The files of the fakes: kept, found again, and named in a message's detail."""

from emulator.platforms import files
from emulator.platforms.store import PlatformStore

NOW = 1_795_168_000_000


def test_a_file_outlives_a_restart_and_the_same_bytes_are_the_same_file(tmp_path):
    store = PlatformStore(tmp_path / "platforms.db")
    kept = store.files.add("a.png", "image/png", b"\x89PNG", now_ms=NOW)
    assert store.files.add("a.png", "image/png", b"\x89PNG", now_ms=NOW + 1).id == kept.id
    assert store.files.add("b.png", "image/png", b"\x89PNG", now_ms=NOW).id != kept.id
    store.close()
    again = PlatformStore(tmp_path / "platforms.db")
    assert again.files.get(kept.id) == kept
    assert again.files.get("missing") is None
    again.close()


def test_a_message_names_its_files(tmp_path):
    store = PlatformStore(tmp_path / "platforms.db")
    shown = store.files.add("a.png", "image/png", b"1234", now_ms=NOW).shown("photo", width=8, duration=None)
    assert files.of({"files": [shown]}) == [
        {"id": shown["id"], "kind": "photo", "name": "a.png", "mime": "image/png", "size": 4, "width": 8}
    ]
    assert files.of({}) == []
    store.close()
