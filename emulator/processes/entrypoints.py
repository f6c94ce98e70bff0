"""The entry points that the fork server runs in a child: one function, or the step that prepares the database.

This module is loaded after the fork. The fork server has most of the code that it imports.
"""

import json
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from emulator.base.clock_page import ClockPage
from emulator.processes import on_clock


def serve(options: Mapping[str, Any], ready: int, sockets: Sequence[int]) -> int:
    """Serve one function on the inherited socket. RunOptions: ``name``, ``timeout_ms``, ``clock``."""
    from emulator.processes import disk_faults
    from infra.runner.serve import serve as serve_function
    from infra.runner.writer import PROGRAM

    before = _follow_clock(options)
    disk_faults.install(Path(os.environ["POSTROOM_RUN_DIR"]))
    return serve_function(
        options["name"],
        sock=socket.socket(fileno=sockets[0]),
        timeout_ms=options["timeout_ms"],
        on_ready=lambda: _say_ready(ready),
        writer_program=(*before, *PROGRAM),
    )


def prepare_database(options: Mapping[str, Any], ready: int, _: Sequence[int]) -> int:
    """Create or migrate the database of the settings, and print facts about it as one line of JSON.

    RunOptions: ``clock``. An unusable database, unusable settings and an unusable agents file are reported in one
    sentence, with the exit code of :mod:`emulator.base.errors`.
    """
    from emulator.base.errors import Misconfigured, NotADatabase, NotReady
    from shared.core.errors import DatabaseRefused, DatabaseUnavailable, PostroomError
    from shared.core.settings import Settings

    _follow_clock(options)
    try:
        settings = Settings.load()
        facts = _prepare(settings.db, settings.timezone, settings.agents_file)
    except PostroomError as error:
        print(error, flush=True)  # noqa: T201
        kinds = {DatabaseRefused: NotADatabase, DatabaseUnavailable: NotReady}
        return kinds.get(type(error), Misconfigured).exit_code
    print(json.dumps(facts), flush=True)  # noqa: T201
    _say_ready(ready)
    return 0


def _prepare(path: Path, timezone: str, agents_file: Path | None) -> dict[str, Any]:
    """Facts about the database: ``messages`` (a count), ``schema``, a sentence about the agents ``file``, whether it
    ``differs``; and ``variables``, the names of all settings, and those ``of_gateway`` with their defaults.
    """
    from infra.discord_relay import settings  # noqa: F401 - the relay's settings are known then
    from shared.channels import registry
    from shared.core.settings import known_variables
    from shared.db.engine import connection
    from shared.roster import new_database
    from shared.turns.gateway.upstreams import GatewaySettings

    is_new = not path.exists() or path.stat().st_size == 0
    schema = new_database.prepare_database(path, timezone=timezone, agents_file=agents_file)
    conn = connection.open_connection(path)
    try:
        messages = conn.execute("SELECT count(*) FROM messages").get
        sentence, differs = _compare_file(conn, agents_file, is_new=is_new)
        registry.import_all()  # each adapter has settings of its own
        facts = {"messages": messages, "schema": schema, "file": sentence, "differs": differs}
        of_gateway = {
            f"POSTROOM_{name.upper()}": field.default if isinstance(field.default, str) else None
            for name, field in GatewaySettings.model_fields.items()
        }
        return facts | {"variables": sorted(known_variables()), "of_gateway": of_gateway}
    finally:
        conn.close()


def _compare_file(conn: Any, path: Path | None, *, is_new: bool) -> tuple[str | None, bool]:
    """A sentence about the agents file, if there is anything to say, and whether it differs from the database."""
    from shared.core.errors import ConfigInvalid
    from shared.roster import roster_file

    if path is None:
        return None, False
    try:
        named, stored = roster_file.read(path), roster_file.read_database(conn)
    except ConfigInvalid as error:
        return f"{error}; the database stays as it is", False
    count = len(roster_file.differences(named, stored))
    if count:
        return f"{path} and the database differ in {count} place{'' if count == 1 else 's'}; the database is used", True
    made = ", ".join([*named.agents, *(f"@{team}" for team in named.teams)])
    return f"the first agents come from {path}: {made}" if is_new and made else None, False


def _follow_clock(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Tell the time by the emulator's clock, if there is one; returns what makes another program of ours do so."""
    if "clock" not in options:
        return ()
    page = Path(options["clock"])
    ClockPage(page).follow()
    return on_clock.program(page)


def _say_ready(fd: int) -> None:
    os.write(fd, b"ready")
    os.close(fd)
