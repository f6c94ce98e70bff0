"""What is set up: settings, database, replica, agents."""

import json
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from emulator.base import environment
from emulator.base.environment import EnvSetting
from emulator.base.errors import EmulatorError
from emulator.cli.checks.finding import Finding, ok, problem, warning
from emulator.cli.checks.running import in_environment
from infra.discord_relay.settings import RelaySettings  # noqa: F401 - its variables are known then
from shared.agents import registry
from shared.agents.programs import containment
from shared.conversation.access import health
from shared.core.errors import ConfigInvalid, PostroomError, UnknownName
from shared.core.policy import AccessPolicy
from shared.core.settings import Settings, known_variables
from shared.core.time import clock
from shared.db.engine import owner_only, past, schema
from shared.db.engine.connection import open_connection

_SET_TOKEN = "echo POSTROOM_API_TOKEN=$(openssl rand -hex 24) >> .env, and start again"  # noqa: S105 - a command


class StoredAgent(NamedTuple):
    """As far as a check needs it."""

    id: str
    provider: str
    config: Mapping[str, Any]
    transcriber: str | None = None
    speaker: str | None = None


def settings(files: Sequence[EnvSetting]) -> Iterator[Finding]:
    """Lines that nothing reads, and values that can't be."""
    found = [
        *environment.unknown(files, known_variables()),
        *(f"{each.where}: {each.name} is set twice" for each in _twice(files)),
    ]
    for sentence in found:
        yield warning("settings", sentence, f"correct or delete the line in {sentence.partition(':')[0]}")
    if not found:
        where = " and ".join(sorted({each.where.partition(":")[0] for each in files}))
        yield ok("settings", f"each line of {where} is read" if where else "no .env: each setting has its default")


def load(environ: Mapping[str, str]) -> Settings | Finding:
    """The settings as the functions would read them from their environment."""
    try:
        with in_environment(environ):
            return Settings.load()
    except ConfigInvalid as error:
        return problem("settings", str(error), "correct the value, in .env or in the environment")


def contradictions(chosen: Settings, *, of_emulator: bool) -> Iterator[Finding]:
    """Settings that do not fit each other. The emulator sets the socket of Litestream itself."""
    if "replicated" in chosen.durability and chosen.litestream_socket is None and not of_emulator:
        yield problem(
            "settings",
            f"POSTROOM_DURABILITY={chosen.durability} waits for a replica, and POSTROOM_LITESTREAM_SOCKET is not set",
            "set POSTROOM_LITESTREAM_SOCKET (infra/README.md)",
        )
    if chosen.idle_timeout_ms > chosen.turn_timeout_ms:
        yield warning(
            "settings",
            "POSTROOM_IDLE_TIMEOUT_MS is longer than POSTROOM_TURN_TIMEOUT_MS, so it ends no turn",
            "make it shorter than POSTROOM_TURN_TIMEOUT_MS",
        )


def database(path: Path) -> tuple[Finding, list[StoredAgent]]:
    """Whether it can be used by this release, and its agents."""
    if not path.exists():
        return ok("database", f"{path} will be made at the first start"), []
    try:
        conn = open_connection(path, readonly=True)
        try:
            version, newest = schema.inspect(conn, path), max(schema.migrations())
            agents = list(_agents(conn))
        finally:
            conn.close()
    except (PostroomError, apsw.Error) as error:
        return problem("database", f"{path} can't be used: {error}", "restore it: infra/README.md"), []
    return _judge_database(path, version, newest), agents


def _agents(conn: apsw.Connection) -> Iterator[StoredAgent]:
    """Those of a database of any release: an older one lacks columns."""
    names = [str(name) for (name,) in conn.execute("SELECT name FROM pragma_table_info('agents')")]
    for values in conn.execute("SELECT * FROM agents ORDER BY id").fetchall():
        row: dict[str, Any] = dict(zip(names, values, strict=True))
        config = json.loads(str(row["config"]))
        yield StoredAgent(str(row["id"]), str(row["provider"]), config, row.get("transcriber"), row.get("speaker"))


def _judge_database(path: Path, version: int, newest: int) -> Finding:
    if version > newest:
        says = f"{path} has schema {version}, this release knows up to {newest}"
        return problem("database", says, "start the newer release again")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & owner_only.UMASK:
        return problem("database", f"{path} can be read by other users ({mode:o})", f"chmod 600 {path}")
    if version < newest:
        return ok("database", f"{path} has schema {version}; the next start makes it {newest}")
    return ok("database", f"{path}, schema {version}, for its owner only")


def replica(chosen: Settings, bucket: Path | None, *, is_running: bool, url: str | None) -> Finding:
    """Where the copy is. Whether it equals the database only ``emulator verify`` tells."""
    if bucket is not None:
        if not bucket.is_dir():
            return ok("replica", f"the emulator will make its bucket, {bucket}")
        compare = "emulator verify compares it with the database" if is_running else "it grows while the emulator runs"
        return ok("replica", f"{bucket}; {compare}")
    if url:
        return ok("replica", f"POSTROOM_REPLICA_URL is set; {chosen.durability} durability")
    return warning("replica", "none is set: a lost disk loses everything", "set POSTROOM_REPLICA_URL (infra/README.md)")


def agents(found: Sequence[StoredAgent]) -> Iterator[Finding]:
    """Whether each agent's provider is here."""
    for agent in found:
        try:
            why = _why_not(agent)
        except UnknownName as error:
            yield problem("agent", f"{agent.id}: {error}", f"emulator agents set {agent.id} --provider NAME")
        except (ConfigInvalid, EmulatorError) as error:
            yield problem("agent", f"{agent.id}: {error}", f"emulator agents set {agent.id} --config JSON")
        else:
            if why is None:
                yield ok("agent", f"{agent.id}: {agent.provider}")
            else:
                mend = "install the program, or name it in the config of the agent (docs/agents/programs.md)"
                yield problem("agent", f"{agent.id}: {why}", mend)
    if not found:
        yield ok("agent", "there is none yet")


def _why_not(agent: StoredAgent) -> str | None:
    """What its provider says about this machine: by ``installed``, or by ``why_not_ready``; either may be missing."""
    provider: Any = registry.get(agent.provider)
    provider.check(agent.config)
    if hasattr(provider, "installed"):
        why: str | None = provider.installed(agent.config).why_not
        return why
    return provider.why_not_ready(agent.config) if hasattr(provider, "why_not_ready") else None


def instant_ms(path: Path) -> int:
    """The instant of which the rows of the database tell, in ms UTC: now, or that of a copy of the past."""
    try:
        return past.now_ms(past.of_file(path))
    except (PostroomError, apsw.Error):
        return clock.now_ms()  # the file can't be read; ``database`` tells


def state(path: Path, chosen: Settings, *, now_ms: int) -> Iterator[Finding]:
    """What the database of *path* says of its health; its disk is a check of the machine."""
    try:
        conn = open_connection(path, readonly=True)
        try:
            needs = health.needs_of_rows(conn, path, AccessPolicy.of(chosen), timezone=chosen.timezone, now_ms=now_ms)
        finally:
            conn.close()
    except (PostroomError, apsw.Error):
        return  # there is no database, or one of an older release; ``database`` tells
    yield from (warning("needs you", sentence) for sentence in needs)


def token(chosen: Settings, found: Sequence[StoredAgent]) -> Finding:
    """Where a program has no leash, everybody needs the token."""
    if chosen.api_token is not None:
        return ok("token", "POSTROOM_API_TOKEN is set")
    if chosen.leash != "required" and containment.why_no_leash(chosen.leash) is not None:
        programs = [each.id for each in found if each.provider in registry.PROGRAMS]
        if programs:
            says = f"the agent {programs[0]} runs a program without a leash, so the API refuses everybody"
            return problem("token", says, _SET_TOKEN)
    return ok("token", "not set: the API answers its own user, and callers with the token beside the database")


def _twice(files: Sequence[EnvSetting]) -> Iterator[EnvSetting]:
    seen: set[tuple[str, str]] = set()
    for each in files:
        key = (each.where.partition(":")[0], each.name)
        if key in seen:
            yield each
        seen.add(key)
