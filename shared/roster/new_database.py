"""Makes a database ready for use: migrations first, then, in a new database, its first agents."""

from pathlib import Path

from shared.core import logs
from shared.core.time import clock
from shared.db.engine import meta, schema
from shared.db.engine.connection import open_connection, scalar, transaction
from shared.db.engine.migrate import Applied, migrate
from shared.db.queue import epochs

log = logs.get()


def prepare_database(path: Path, *, timezone: str = "UTC", agents_file: Path | None = None) -> int:
    """Migrate the database; when it has no agents, create the first ones. Several processes may call this at once.

    Args:
        timezone: the time zone of each agent for which *agents_file* names none.
        agents_file: the file that names the first agents; None creates one agent that needs no account.

    Returns:
        The schema's version afterwards.

    Raises:
        DatabaseTooNew: a later release wrote the database; the file is unchanged.
        DatabaseRefused: the file is damaged, or another program made or changed its schema; the file is unchanged.
        DatabaseUnavailable: the file can't be opened or written at the moment.
        ConfigInvalid: *agents_file* is wrong; the database has no agents yet.
    """
    with schema.explained(path):
        return _prepare(path, timezone, agents_file)


def _prepare(path: Path, timezone: str, agents_file: Path | None) -> int:
    applied: list[Applied] = []
    version = migrate(path, on_applied=applied.append)
    if applied:
        seconds = round(sum(each.seconds for each in applied), 2)
        log.info("database.migrated", **{"from": applied[0].version - 1}, to=version, seconds=seconds)
    conn = open_connection(path)
    try:
        with transaction(conn):
            epochs.begin(conn, now_ms=clock.now_ms())
            if not scalar(conn, "SELECT EXISTS (SELECT 1 FROM agents)"):
                from shared.roster import roster_file  # needed once in a database's life; spares each start 20 ms

                meta.ensure_began(conn, now_ms=clock.now_ms())
                roster_file.create_first_agents(conn, agents_file, timezone=timezone, now_ms=clock.now_ms())
    finally:
        conn.close()
    return version
