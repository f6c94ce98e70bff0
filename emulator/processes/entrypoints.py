"""What the fork server runs in a child: a function, or the step that prepares the database.

Loaded after the fork; what it needs of ours is in the fork server's second stage, or is loaded here.
"""

import json
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def serve(options: Mapping[str, Any], ready: int, sockets: Sequence[int]) -> int:
    """Serve one function on the inherited socket. RunOptions: ``name``, ``timeout_ms``."""
    from infra.runner.serve import serve as serve_function

    return serve_function(
        options["name"],
        sock=socket.socket(fileno=sockets[0]),
        timeout_ms=options["timeout_ms"],
        on_ready=lambda: _say_ready(ready),
    )


def prepare_database(options: Mapping[str, Any], ready: int, _: Sequence[int]) -> int:
    """Create or migrate the database of the settings, and print what is in it as one line of JSON.

    A file that is no database, and settings or an operator's file that can't be used, are told in one sentence, with
    the exit code of their failure.
    """
    import apsw

    from emulator.base.errors import Misconfigured, NotADatabase
    from shared.core.errors import PostroomError
    from shared.core.settings import Settings

    try:
        settings = Settings.load()
        facts = _prepare(settings.db, settings.timezone, settings.agents_file)
    except (apsw.NotADBError, apsw.CorruptError) as error:
        print(  # noqa: T201
            f"{settings.db} is not a database that SQLite can read ({error}). Move it away, and keep it; the next "
            f"start restores from the replica",
            flush=True,
        )
        return NotADatabase.exit_code
    except PostroomError as error:
        print(error, flush=True)  # noqa: T201
        return Misconfigured.exit_code
    print(json.dumps(facts), flush=True)  # noqa: T201
    _say_ready(ready)
    return 0


def _prepare(path: Path, timezone: str, agents_file: Path | None) -> dict[str, Any]:
    """``messages`` (how many), ``schema``, what to say of the operator's ``file``, and whether it ``differs``."""
    from shared.db.engine import connection
    from shared.roster import new_database

    is_new = not path.exists() or path.stat().st_size == 0
    schema = new_database.prepare_database(path, timezone=timezone, agents_file=agents_file)
    conn = connection.open_connection(path)
    try:
        messages = conn.execute("SELECT count(*) FROM messages").get
        sentence, differs = _of_file(conn, agents_file, is_new=is_new)
        return {"messages": messages, "schema": schema, "file": sentence, "differs": differs}
    finally:
        conn.close()


def _of_file(conn: Any, path: Path | None, *, is_new: bool) -> tuple[str | None, bool]:
    """What the operator's file has to do with the database, if anything, and whether they differ."""
    from shared.core.errors import ConfigInvalid
    from shared.roster import roster_file

    if path is None:
        return None, False
    try:
        named, stored = roster_file.read(path), roster_file.of_database(conn)
    except ConfigInvalid as error:
        return f"{error}; the database goes on as it is", False
    count = len(roster_file.differences(named, stored))
    if count:
        return f"{path} and the database differ in {count} place{'' if count == 1 else 's'}; the database counts", True
    made = ", ".join([*named.agents, *(f"@{team}" for team in named.teams)])
    return f"{path} named the first agents: {made}" if is_new and made else None, False


def _say_ready(fd: int) -> None:
    os.write(fd, b"ready")
    os.close(fd)
