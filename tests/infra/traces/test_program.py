"""The program: it follows from where it was, exports a day once more on demand, and names a setting that is wrong."""

import asyncio
import http.server
import json
import os
import threading

import pytest
from structlog.testing import capture_logs

from infra.traces.cursor import Cursor, path_of
from infra.traces.program import follow, read_options, run, sender
from shared.core.errors import ConfigInvalid, DatabaseUnavailable
from shared.db.engine import meta
from shared.db.engine.connection import transaction
from shared.db.queue import events
from tests.fake_client import FakeClient
from tests.infra.traces.kit import COLLECTOR, Taken
from tests.support import NOW


def send_one(conn, number, *, at=NOW):
    with transaction(conn):
        for type_ in ("response_ready", "response_acked"):
            facts = {"message_id": f"proactive_{number}", "response_id": number, "channel": "telegram"}
            events.append(conn, type_, now_ms=at, **facts)


async def followed(conn, file, taken, done):
    """Follow until the cursor has come so far."""
    running = asyncio.ensure_future(follow(conn, file, sender(COLLECTOR, FakeClient(taken)), 0.001))
    async with asyncio.timeout(30):
        while (Cursor.read(file) or Cursor(0, 0)).done < done and not running.done():  # noqa: ASYNC110 - a file
            await asyncio.sleep(0.001)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_it_begins_with_what_is_new_and_goes_on_where_it_was(conn, db):
    file, taken = path_of(db), Taken()
    send_one(conn, 1)

    async def go():
        running = asyncio.ensure_future(follow(conn, file, sender(COLLECTOR, FakeClient(taken)), 0.001))
        await asyncio.sleep(0)  # it has read where the events end
        await asyncio.sleep(0)
        send_one(conn, 2)
        async with asyncio.timeout(30):
            while Cursor.read(file) is None:  # noqa: ASYNC110 - a file
                await asyncio.sleep(0.001)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        send_one(conn, 3)  # nobody follows
        await followed(conn, file, taken, 6)

    asyncio.run(go())
    numbers = [next(each["value"] for each in span["attributes"] if "response" in each["key"]) for span in taken.spans]
    assert numbers == [{"intValue": "2"}, {"intValue": "3"}]


def restored_earlier(conn):
    """Its events are fewer than the cursor knows; a copy that someone put there has the same epoch."""
    with transaction(conn):
        conn.execute("DELETE FROM events WHERE id > 2")


def another_database(conn):
    with transaction(conn):
        meta.put(conn, "epoch", "epoch_of_another")


@pytest.mark.parametrize("become", [restored_earlier, another_database])
def test_where_the_cursor_is_of_another_history_it_begins_with_what_is_new_and_says_so(conn, db, become):
    file, taken = path_of(db), Taken()
    for number in (1, 2, 3):
        send_one(conn, number)
    Cursor(4, 4, meta.get(conn, "epoch")).write(file)
    become(conn)
    newest = events.latest_id(conn)

    async def go():
        running = asyncio.ensure_future(follow(conn, file, sender(COLLECTOR, FakeClient(taken)), 0.001))
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        send_one(conn, 4)  # nobody follows
        await followed(conn, file, taken, newest + 2)

    with capture_logs() as logged:
        asyncio.run(go())
    assert Cursor.read(file) == Cursor(newest + 2, newest + 2, meta.get(conn, "epoch"))
    numbers = [next(each["value"] for each in span["attributes"] if "response" in each["key"]) for span in taken.spans]
    assert numbers == [{"intValue": "4"}]
    (said,) = (each for each in logged if each["event"] == "traces.cursor_ahead")
    assert (said["after"], said["newest"]) == (4, newest)


@pytest.fixture
def collector():
    """A collector on this machine; what it gets, and its address."""
    got = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(
                (self.path, dict(self.headers), json.loads(self.rfile.read(int(self.headers["content-length"]))))
            )
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield got, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def of_database(db, monkeypatch):
    monkeypatch.setenv("POSTROOM_DB", str(db))
    for name in [each for each in os.environ if each.startswith("OTEL_")]:
        monkeypatch.delenv(name)


def test_a_day_is_exported_once_more(conn, db, of_database, collector, monkeypatch):
    got, url = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a")
    for number in (1, 2, 3):
        send_one(conn, number, at=NOW + number * 1000)
    day = ["--endpoint", url, "--since", "2027-01-15T08:00:02Z", "--until", "2027-01-15T08:00:03Z"]
    assert [run(read_options(day)) for _ in range(2)] == [0, 0]
    (path, headers, first), (_, _, second) = got
    assert (path, headers["x-tenant"], headers["content-type"]) == ("/v1/traces", "a", "application/json")
    assert first == second
    (span,) = first["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert span["startTimeUnixNano"] == str((NOW + 2000) * 10**6)
    assert not path_of(db).exists(), "the place of the one that follows stays"


def test_a_setting_that_is_wrong_is_named(conn, of_database, tmp_path, monkeypatch):
    with pytest.raises(ConfigInvalid, match="no collector is named"):
        run(read_options([]))
    monkeypatch.setenv("POSTROOM_DB", str(tmp_path / "none.db"))
    with pytest.raises(DatabaseUnavailable, match=r"none\.db"):
        run(read_options(["--endpoint", "http://127.0.0.1:1"]))


def test_a_place_that_can_not_be_kept_is_named_and_not_the_database(conn, db, of_database):
    """The disk is full. What ends the export once said that the database can't be used."""
    file = path_of(db)
    Cursor(99, 99).write(file)  # of another database, so the start writes it anew
    file.with_name(f"{file.name}.new").symlink_to("/dev/full")
    with pytest.raises(DatabaseUnavailable, match=r"-traces, which .* \(No space left on device\): check "):
        run(read_options(["--endpoint", "http://127.0.0.1:1"]))
    assert Cursor.read(file) == Cursor(99, 99)


@pytest.mark.parametrize("option", [["--since", "yesterday"], ["--every", "soon"]])
def test_an_option_that_is_wrong_ends_it(option):
    with pytest.raises(SystemExit):
        read_options(option)
