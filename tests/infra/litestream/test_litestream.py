"""The real Litestream, started as template.yaml starts it, but with a folder as its bucket."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from infra.litestream.replica_settings import POSITION_KEPT_MS, SNAPSHOT_RETENTION_MS
from infra.template.cloudformation import parse
from shared.core.time.durations import parse_ms
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.roster import agents
from tests.infra.processes import ROOT, Process, until
from tests.support import make_agent

PATIENCE_S = 60.0


def command(container):
    """The Command of a container of template.yaml, with the paths of its binary."""
    template = parse((ROOT / "template.yaml").read_text(), "template.yaml")
    containers = template["Resources"]["Task"]["Properties"]["ContainerDefinitions"].elements()
    (node,) = [item for item in containers if item["Name"].text == container]
    return [word.text for word in node["Command"].elements()]


def binary():
    beside = Path(sys.executable).with_name("litestream")
    return str(beside) if beside.exists() else shutil.which("litestream")


@pytest.fixture
def environment(tmp_path, db):
    return {
        "POSTROOM_DB": str(db),
        "POSTROOM_REPLICA_URL": f"file://{tmp_path}/replica",
        "POSTROOM_LITESTREAM_SOCKET": str(tmp_path / "litestream.sock"),
    }


@pytest.fixture
def replicate(environment):
    process = Process(sys.executable, *command("litestream")[1:], environment=environment)
    yield process
    process.close()


def litestream(*words, environment):
    return subprocess.run(
        [binary(), *words],
        env={"PATH": os.environ["PATH"], **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def restore(environment, db):
    """Run the restore container of the template for another file; its exit code and its last log line."""
    done = subprocess.run(
        [sys.executable, *command("restore")[1:3]],
        env={"PATH": os.environ["PATH"], **environment, "POSTROOM_DB": str(db)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


def test_the_configuration_names_one_database_and_its_replica(environment, db):
    answer = litestream("databases", "-config", "infra/litestream.yml", environment=environment)

    assert answer.returncode == 0, answer.stderr
    assert re.search(rf"^{re.escape(str(db))} +file$", answer.stdout, re.MULTILINE)


def test_the_code_knows_how_long_the_configuration_keeps_positions():
    configuration = yaml.safe_load((ROOT / "infra/litestream.yml").read_text())

    assert parse_ms(configuration["snapshot"]["retention"]) == SNAPSHOT_RETENTION_MS
    assert parse_ms(configuration["l0-retention"]) == POSITION_KEPT_MS


def test_what_was_committed_is_restored_by_the_templates_commands(replicate, environment, conn, db, tmp_path):
    socket = Path(environment["POSTROOM_LITESTREAM_SOCKET"])
    until(socket.is_socket, "the control socket is not there")
    make_agent(conn, "writer")
    waited = litestream("sync", "-wait", "-socket", str(socket), str(db), environment=environment)
    make_agent(conn, "last")
    assert replicate.stop(signal.SIGTERM)[0] == 0

    back = tmp_path / "back.db"
    restored = restore(environment, back)

    assert waited.returncode == 0, waited.stderr
    assert (restored[0], restored[1]["step"]) == (0, "restore")
    other = open_connection(back)
    assert {"writer", "last"} <= {agent.id for agent in agents.every(other)}
    other.close()


def test_the_control_socket_is_ours_alone(replicate, environment):
    socket = Path(environment["POSTROOM_LITESTREAM_SOCKET"])
    until(socket.is_socket, "the control socket is not there")

    assert socket.stat().st_mode & 0o777 == 0o600


def test_the_first_start_has_nothing_to_restore_and_says_no_error(environment, tmp_path):
    fresh = tmp_path / "fresh.db"

    assert restore(environment, fresh)[1]["step"] == "first"
    assert not fresh.exists()


def test_while_it_replicates_a_restore_is_refused_and_changes_nothing(replicate, environment, conn, db):
    make_agent(conn, "kept")
    replicate.wait_for("replicate.begun")

    code, said = restore(environment, db)

    assert code == 73
    assert "another process of this machine replicates" in said["reason"]
    with transaction(conn):
        assert rows(conn, "SELECT id FROM agents WHERE id = 'kept'", {}) == [("kept",)]
    conn.close()
    assert replicate.stop(signal.SIGTERM)[0] == 0
    assert restore(environment, db)[1]["step"] == "continue"


def test_a_database_that_comes_later_is_picked_up(environment, db, tmp_path):
    """Functions make the database, and Litestream starts before them."""
    later = tmp_path / "later.db"
    process = Process(
        sys.executable, *command("litestream")[1:], environment={**environment, "POSTROOM_DB": str(later)}
    )
    try:
        until(Path(environment["POSTROOM_LITESTREAM_SOCKET"]).is_socket, "the control socket is not there")
        shutil.copy(db, later)
        until(lambda: list(tmp_path.glob("replica/**/*.ltx")), "nothing was replicated")
    finally:
        process.close()


def test_every_variable_of_the_configuration_is_given_by_the_template():
    used = set(re.findall(r"^[^#\n]*\$\{(\w+)\}", (ROOT / "infra" / "litestream.yml").read_text(), re.MULTILINE))
    template = parse((ROOT / "template.yaml").read_text(), "template.yaml")
    for container in template["Resources"]["Task"]["Properties"]["ContainerDefinitions"].elements():
        given = {entry["Name"].text for entry in container["Environment"].elements()}
        if container["Name"].text == "litestream":
            assert used - given == {"POSTROOM_LITESTREAM_ADDR"}, "without it there are no metrics"
        if container["Name"].text == "restore":
            assert {"POSTROOM_DB", "POSTROOM_REPLICA_URL"} <= given
