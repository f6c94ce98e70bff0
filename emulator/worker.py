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
    """Serve one function on the inherited socket. Options: ``name``, ``timeout_ms``."""
    from infra.runner import serve as serve_function

    return serve_function(
        options["name"],
        sock=socket.socket(fileno=sockets[0]),
        timeout_ms=options["timeout_ms"],
        on_ready=lambda: _say_ready(ready),
    )


def prepare_database(options: Mapping[str, Any], ready: int, _: Sequence[int]) -> int:
    """Create or migrate the database and print what is in it as one line of JSON.

    Options: ``db``. A file that is no database is told in one sentence, with the exit code of ``NotADatabase``.
    """
    import apsw

    from emulator.failures import NotADatabase

    path = Path(options["db"])
    try:
        facts = _prepare(path)
    except (apsw.NotADBError, apsw.CorruptError) as error:
        print(  # noqa: T201
            f"{path} is not a database that SQLite can read ({error}). Move it away, and keep it; the next start "
            f"restores from the replica",
            flush=True,
        )
        return NotADatabase.exit_code
    print(json.dumps(facts), flush=True)  # noqa: T201
    _say_ready(ready)
    return 0


def _prepare(path: Path) -> dict[str, Any]:
    from shared.db import connection, migrate

    schema = migrate.migrate(path)
    conn = connection.open_connection(path)
    try:
        messages = conn.execute("SELECT count(*) FROM messages").get
    finally:
        conn.close()
    return {"messages": messages, "schema": schema}


def _say_ready(fd: int) -> None:
    os.write(fd, b"ready")
    os.close(fd)
