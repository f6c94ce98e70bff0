"""The objects in the bucket survive a restart, bit for bit."""

import contextlib
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from emulator.base.environment import DUMMY_AWS
from emulator.storage import replica, s3_process
from shared.db.replica.litestream_program import program
from tests.emulator.harness import ROOT, fetch

ENVIRONMENT = {"PATH": os.environ["PATH"]} | DUMMY_AWS
# moto reads the signer's name and does not check the signature.
_SCOPE = "emulator/20261121/us-east-1/s3/aws4_request"
SIGNED = {"Authorization": f"AWS4-HMAC-SHA256 Credential={_SCOPE}, SignedHeaders=host, Signature=0"}


@contextlib.contextmanager
def s3_server(folder: Path, port: int = 0, largest: int = resource.RLIM_INFINITY) -> Iterator[int]:
    """A real server process that can't write files of more than *largest* bytes; yields its port."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "emulator.storage.s3_server"),
            *("--port", str(port), "--dir", str(folder), "--bucket", s3_process.BUCKET),
        ],
        cwd=ROOT, env=ENVIRONMENT | {"PYTHONDONTWRITEBYTECODE": "1"}, stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest)),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield int(json.loads(process.stdout.readline())["port"])
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait(60)
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.e2e
def test_a_write_that_the_disk_refused_is_invisible(tmp_path: Path) -> None:
    """Litestream lists the objects and relies on that list."""
    with s3_server(tmp_path, largest=4000) as port:
        url = f"http://127.0.0.1:{port}/{s3_process.BUCKET}"
        assert fetch(f"{url}/a", method="PUT", body=b"small", headers=SIGNED)[0] == 200
        assert fetch(f"{url}/a", method="PUT", body=b"large" * 1000, headers=SIGNED)[0] == 503
        assert fetch(f"{url}/b", method="PUT", body=b"large" * 1000, headers=SIGNED)[0] == 503

        assert fetch(f"{url}/a", headers=SIGNED) == (200, b"small")
        assert fetch(f"{url}/b", headers=SIGNED)[0] == 404
        assert re.findall(rb"<Key>(.*?)</Key>", fetch(f"{url}?list-type=2", headers=SIGNED)[1]) == [b"a"]


@pytest.mark.e2e
def test_every_kind_of_change_survives_a_restart(tmp_path: Path) -> None:
    with s3_server(tmp_path) as port:
        base = f"http://127.0.0.1:{port}/postroom-replica"
        headers = SIGNED | {"Content-Type": "text/plain", "x-amz-meta-litestream-timestamp": "2026-11-21T13:00:00Z"}
        for key in ("kept", "replaced", "deleted", "many1", "many2"):
            assert fetch(f"{base}/{key}", method="PUT", body=key.encode(), headers=headers)[0] == 200
        assert fetch(f"{base}/replaced", method="PUT", body=b"new", headers=SIGNED)[0] == 200
        assert fetch(f"{base}/deleted", method="DELETE", headers=SIGNED)[0] == 204
        untouched = (tmp_path / "postroom-replica" / "kept.object").stat().st_ino
        wanted = b"<Delete><Object><Key>many1</Key></Object><Object><Key>many2</Key></Object></Delete>"
        assert fetch(f"{base}?delete", method="POST", body=wanted, headers=SIGNED)[0] == 200
        # To rewrite all other objects would block the bucket for minutes if there are thousands.
        assert (tmp_path / "postroom-replica" / "kept.object").stat().st_ino == untouched

    with s3_server(tmp_path) as port:
        base = f"http://127.0.0.1:{port}/postroom-replica"
        listing = fetch(base, headers=SIGNED)[1].decode()
        assert [key for key in ("kept", "replaced", "deleted", "many1", "many2") if f"<Key>{key}</Key>" in listing] == [
            "kept", "replaced",
        ]  # fmt: skip
        assert fetch(f"{base}/kept", headers=SIGNED) == (200, b"kept")
        assert fetch(f"{base}/replaced", headers=SIGNED) == (200, b"new")


@pytest.mark.e2e
def test_a_database_is_restored_from_the_objects_of_an_earlier_server(tmp_path: Path) -> None:
    """Replicate, end the server, start another on the same folder, restore: the same rows."""
    database, copy = tmp_path / "a.db", tmp_path / "b.db"
    conn = apsw.Connection(str(database))
    conn.execute("PRAGMA journal_mode = WAL").fetchall()
    conn.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT) STRICT")
    with s3_server(tmp_path / "s3") as port:
        for _ in range(3):
            conn.execute("INSERT INTO t (x) VALUES (hex(randomblob(100)))")
            subprocess.run(
                [program(), "replicate", "-once", str(database), replica.url(port)], env=ENVIRONMENT, check=True
            )
    rows = conn.execute("SELECT * FROM t").fetchall()
    conn.close()

    with s3_server(tmp_path / "s3") as port:
        subprocess.run([program(), "restore", "-o", str(copy), replica.url(port)], env=ENVIRONMENT, check=True)

    restored = apsw.Connection(str(copy))
    assert restored.execute("SELECT * FROM t").fetchall() == rows
    restored.close()
