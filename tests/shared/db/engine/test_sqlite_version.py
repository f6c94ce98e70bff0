import apsw
import pytest

from shared.core.errors import ConfigInvalid
from shared.db.engine.connection import open_connection


@pytest.mark.parametrize("loaded", ["3.40.1", "3.51.2", "3.9.9"])
def test_an_sqlite_that_could_corrupt_the_file_is_refused_by_what_is_loaded(tmp_path, monkeypatch, loaded):
    """Where apsw links the system's library, the version that it was compiled with says nothing."""
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: loaded)
    with pytest.raises(ConfigInvalid, match=r"install an apsw with SQLite 3\.51\.3 or newer"):
        open_connection(tmp_path / "p.db")
    assert not (tmp_path / "p.db").exists()
