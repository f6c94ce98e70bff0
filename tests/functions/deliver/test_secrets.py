"""A platform that repeats the address of a request puts no token into rows, the write-ahead log or the log."""

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from shared.db.engine.connection import rows
from tests.functions.deliver.sending import Platform, discord_answer, step
from tests.support import answer, column, dump

TELEGRAM, DISCORD = "AAExample", "interaction-token"


class Echo(Platform):
    """Refuses each request, and repeats its address and its headers."""

    def __init__(self, status):
        super().__init__()
        self.status = status

    async def __call__(self, request):
        said = f"no route for {request.url} {request.headers.get('authorization')}"
        body = {"ok": False, "error_code": self.status, "description": said, "message": said, "code": 0}
        return httpx.Response(self.status, json=body)


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
def test_no_token_of_an_error_is_kept_in_a_row_or_the_write_ahead_log(conn, db, status):
    rows(conn, "PRAGMA wal_autocheckpoint = 0")
    answer(conn)
    discord_answer(conn, "two")
    step(Echo(status))
    kept = json.dumps(dump(conn)) + Path(f"{db}-wal").read_bytes().decode("latin-1") + db.read_bytes().decode("latin-1")
    assert TELEGRAM not in kept
    assert DISCORD not in kept
    assert "***" in kept


BROKEN = """
import asyncio
from functions import deliver
from shared.core import logs
from tests.functions.deliver.sending import service_of, worked

logs.configure("deliver")

async def broken(request):
    raise ZeroDivisionError(f"a bug at {request.url}")

async def main():
    service = service_of(broken)
    await worked(service)
    await service.close()

asyncio.run(main())
"""


def test_no_token_of_a_traceback_is_in_the_log(conn):
    answer(conn)
    discord_answer(conn, "two")
    done = subprocess.run([sys.executable, "-c", BROKEN], capture_output=True, text=True, check=True, timeout=120)
    tracebacks = [line["exception"] for line in map(json.loads, done.stdout.splitlines()) if "exception" in line]
    assert len(tracebacks) == 2
    assert all("ZeroDivisionError: a bug at http://" in each and "***" in each for each in tracebacks)
    assert TELEGRAM not in done.stdout + done.stderr
    assert DISCORD not in done.stdout + done.stderr
    assert column(conn, "SELECT DISTINCT status FROM responses") == ["dead"]
