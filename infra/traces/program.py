"""``python -m infra.traces``: follows the database of ``POSTROOM_DB``, and exports each span when it ends.

``--since 2026-11-26T00:00:00Z`` exports what ended then or later (until ``--until``, or now), and ends; the place to
which the export has come stays. A span has the same ids each time, so a collector keeps one of it.

Ends with 0 at a signal, or when everything since then is exported; 69 where the database can't be used, the place of
the export can't be kept or, with ``--since``, the collector can't be used; 78 where the environment is wrong.
"""

import argparse
import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import apsw

from infra.traces import cursor as cursors
from infra.traces.cursor import Cursor
from infra.traces.export import FURTHEST_BACK, Export, Send
from infra.traces.otlp import Collector, NotExported, SpansRefused
from infra.traces.span import TraceSpan
from shared.core import logs
from shared.core.errors import DatabaseUnavailable, PostroomError
from shared.core.settings import Settings
from shared.core.time.durations import parse_ms
from shared.db.engine import meta, schema
from shared.db.engine.connection import open_connection
from shared.db.queue import events
from shared.db.views import books
from shared.runtime.http1_client import HttpClient
from shared.runtime.http_client import Client

SPANS = 500  # in a request
_TRIES = 5  # of an export since an instant
_LONGEST_WAIT_S = 60.0

log = logs.get()


def read_options(arguments: Sequence[str]) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m infra.traces", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--endpoint", help="the OTLP/HTTP address of the collector, such as http://127.0.0.1:4318")
    parser.add_argument("--every", type=_duration, default=2000, help="how often it looks for events, such as 2s")
    parser.add_argument("--since", type=_instant, help="export what ended since then, and end")
    parser.add_argument("--until", type=_instant, help="with --since: only what ended before then")
    return parser.parse_args(arguments)


def _duration(text: str) -> int:
    try:
        return parse_ms(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _instant(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        form = "write an instant such as 2026-11-26T00:00:00Z"
        raise argparse.ArgumentTypeError(f"{text!r} is no instant: {form}") from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def main(arguments: Sequence[str]) -> int:
    """The program; see the module's docstring."""
    options = read_options(arguments)
    logs.configure("traces")
    os.umask(0o077)
    try:
        return run(options)
    except PostroomError as error:
        log.error("traces.refused", reason=str(error))
        return os.EX_UNAVAILABLE if isinstance(error, DatabaseUnavailable) else os.EX_CONFIG


def run(options: argparse.Namespace) -> int:
    """Export, as the options and the environment say.

    Raises:
        PostroomError: the environment is wrong, or the database can't be used.
    """
    database = Settings.load().db.absolute()
    collector = Collector.of(os.environ, options.endpoint)
    with schema.explained(database), contextlib.closing(open_connection(database, readonly=True)) as conn:
        schema.inspect(conn, database)
        return asyncio.run(_until_stopped(conn, database, collector, options))


async def _until_stopped(
    conn: apsw.Connection, database: Path, collector: Collector, options: argparse.Namespace
) -> int:
    client = HttpClient()
    send = sender(collector, client)
    if options.since is None:
        work = follow(conn, cursors.path_of(database), send, options.every / 1000)
    else:
        work = export_since(conn, send, options.since, options.until)
    running = asyncio.ensure_future(work)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    try:
        return await running
    except asyncio.CancelledError:
        log.info("traces.stopped")
        return 0
    finally:
        await client.close()


def sender(collector: Collector, client: Client) -> Send:
    """Sends spans in requests of limited length. What a collector never takes is logged and left out."""

    async def send(spans: Sequence[TraceSpan]) -> None:
        for begin in range(0, len(spans), SPANS):
            try:
                await collector.send(client, spans[begin : begin + SPANS])
            except SpansRefused as error:
                log.error("traces.spans_refused", reason=str(error), spans=len(spans[begin : begin + SPANS]))

    return send


async def follow(conn: apsw.Connection, file: Path, send: Send, every_s: float) -> int:
    """Export what ends, until cancelled; *file* keeps how far the export has come."""
    kept = _begin(conn, file)
    export, waits = Export(conn, send, kept), 0
    log.info("traces.started", after=kept.done)
    while True:
        try:
            has_more = await export.step(events.latest_id(conn))
        except NotExported as error:
            if not waits:
                log.warning("traces.not_exported", reason=str(error))
            waits += 1
            await asyncio.sleep(min(2.0**waits, _LONGEST_WAIT_S))
            continue
        if waits:
            log.info("traces.exported_again")
            waits = 0
        if export.cursor != kept:
            kept = export.cursor
            kept.write(file)
        if not has_more:
            await asyncio.sleep(every_s)


def _begin(conn: apsw.Connection, file: Path) -> Cursor:
    """Where the export goes on; the newest event where *file* knows no place in this database's events."""
    newest = events.latest_id(conn)
    begin = Cursor(newest, newest, meta.get(conn, "epoch"))
    kept = Cursor.read(file)
    if kept is None:
        return begin
    if kept.epoch == begin.epoch and kept.done <= newest:
        return kept
    log.warning(
        "traces.cursor_ahead",
        reason=f"{file.name} is of another database, or of this one before a restore: the export begins with what is "
        "new; send what is missing with --since",
        after=kept.done,
        newest=newest,
    )
    begin.write(file)
    return begin


async def export_since(conn: apsw.Connection, send: Send, since_ms: int, until_ms: int | None) -> int:
    """Export what ended between the two instants; the exit code."""
    done = books.first_since(conn, "events", since_ms) - 1
    last = events.latest_id(conn) if until_ms is None else books.first_since(conn, "events", until_ms) - 1
    export, failed = Export(conn, send, Cursor(done, max(0, done - FURTHEST_BACK))), 0
    while True:
        try:
            if not await export.step(last):
                break
            failed = 0
        except NotExported as error:
            failed += 1
            if failed == _TRIES:
                log.error("traces.not_exported", reason=str(error), after=export.cursor.done)
                return os.EX_UNAVAILABLE
            await asyncio.sleep(2.0**failed)
    log.info("traces.exported", events=max(0, last - done))
    return 0
