"""``python -m infra.runner`` serves each function, or says in one sentence why not."""

import os
import signal
import socket
import time
from pathlib import Path

import apsw
import httpx
import pytest

from infra.serving import serving_lock
from shared.roster.new_database import prepare_database
from tests.infra.processes import ROOT, kept_port, listening_socket, until
from tests.liveness import inheritable

FUNCTIONS = ("api", "deliver", "dispatch", "ingest", "recurrence", "sweep")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_loading_is_a_clean_end(start, environment, number):
    """The first line of its output must not be a traceback."""
    for delay_s in (0.0, 0.1, 0.2):
        process = start("-m", "infra.runner", "sweep", "--port", "0", environment=environment)
        maps = Path(f"/proc/{process.pid}/maps")
        until(lambda: "pydantic_core" in maps.read_text(), "Python did not come up")  # noqa: B023 - waited for here
        time.sleep(delay_s)  # at any moment of its start, before or after the handlers are set
        code, _ = process.stop(number)
        assert code in (0, -number)
        assert process.err == [] or code == -number


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_a_port_in_use_is_one_sentence(start, environment):
    sock, port = listening_socket()
    with sock:
        process = start("-m", "infra.runner", "ingest", "--port", port, environment=environment)
        code = process.end()

    assert code == 73
    assert process.err == [
        f"runner: port {port} on 127.0.0.1 is in use: stop what listens there, or choose another with --port"
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["inges", "--port", "0"], f"unknown function 'inges'; known: {', '.join(FUNCTIONS)}"),
        (["../ingest", "--port", "0"], f"unknown function '../ingest'; known: {', '.join(FUNCTIONS)}"),
        (["__init__", "--port", "0"], f"unknown function '__init__'; known: {', '.join(FUNCTIONS)}"),
        (["ingest"], "one of the arguments --port --fd is required"),
        (["ingest", "--port", "x"], "argument --port: 'x' is not a port; write a number from 0 to 65535"),
        (
            ["ingest", "--port", "0", "--timeout", "10"],
            "argument --timeout: '10' is not a duration; write a whole number and ms, s, m or h, such as 500ms or 10s",
        ),
    ],
)
def test_a_wrong_command_is_one_sentence(start, environment, arguments, sentence):
    process = start("-m", "infra.runner", *arguments, environment=environment)

    assert process.end() == 64
    assert process.err == [f"runner: {sentence}"]
    assert process.out == []


def test_a_wrong_setting_is_named_without_its_value(start, environment):
    environment = {**environment, "POSTROOM_BATCH_SIZE": "many-secrets"}
    process = start("-m", "infra.runner", "sweep", "--port", "0", environment=environment)

    assert process.end() == 78
    (line,) = process.events("function.refused")
    assert "POSTROOM_BATCH_SIZE" in line["reason"]
    assert "many-secrets" not in "".join(process.out + process.err)


def test_without_a_named_database_none_is_begun_in_the_working_folder(start, environment, tmp_path):
    """A variable that is missing in one of six units would give that function an empty database of its own."""
    environment = {name: value for name, value in environment.items() if name != "POSTROOM_DB"}
    environment["PYTHONPATH"] = str(ROOT)
    options = {"environment": environment, "cwd": tmp_path}
    process = start("-m", "infra.runner", "sweep", "--port", "0", **options)

    assert process.end() == 78
    (line,) = process.events("function.refused")
    assert f"POSTROOM_DB is not set, and there is no postroom.db in {tmp_path}" in line["reason"]
    assert [*tmp_path.iterdir()] == []

    prepare_database(tmp_path / "postroom.db")
    start("-m", "infra.runner", "sweep", "--port", "0", **options).wait_for("function.ready")


DATABASES = {
    "damaged": ("is not a database that SQLite can read", lambda path: path.write_bytes(b"no database " * 500)),
    "of another program": (
        "is the database of another program",
        lambda path: execute(path, "CREATE TABLE albums (id)"),
    ),
    "no file": ("is a folder, and a database is a file", lambda path: path.mkdir()),
}


def execute(path, statement):
    conn = apsw.Connection(str(path))
    conn.execute(statement)
    conn.close()


@pytest.mark.parametrize(("sentence", "make"), DATABASES.values(), ids=DATABASES)
def test_an_unusable_database_is_one_log_line_without_a_traceback(start, environment, sentence, make):
    make(Path(environment["POSTROOM_DB"]))
    process = start("-m", "infra.runner", "sweep", "--port", "0", environment=environment)

    assert process.end() == 78
    (line,) = process.events("function.refused")
    assert sentence in line["reason"]
    assert "Traceback" not in "".join(process.out + process.err)


UNKEPT = {"replicated": "POSTROOM_LITESTREAM_SOCKET", "telegramm=replicated": "known: api, discord, "}


@pytest.mark.parametrize(("durability", "sentence"), UNKEPT.items(), ids=UNKEPT)
def test_a_functions_refusal_to_start_is_one_log_line(start, environment, durability, sentence):
    environment = {**environment, "POSTROOM_DURABILITY": durability}
    process = start("-m", "infra.runner", "ingest", "--port", "0", environment=environment)

    assert process.end() == 78
    (line,) = process.out
    assert '"function.refused"' in line
    assert sentence in line
    assert process.err == []


# -- the real functions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_is_served_by_its_command(start, client, environment, name):
    process = start("-m", "infra.runner", name, "--port", "0", "--timeout", "10s", environment=environment)
    (line,) = process.wait_for("function.listening")

    answer = client.get(f"http://127.0.0.1:{line['port']}/healthz")
    niceness = os.getpriority(os.PRIO_PROCESS, process.pid)
    code, _ = process.stop(signal.SIGTERM)

    assert (answer.status_code, answer.json()["ok"]) == (200, True)
    assert niceness == max(os.getpriority(os.PRIO_PROCESS, 0), 15 if name == "dispatch" else 0)
    assert code == 0
    assert process.err == []


def test_the_command_serves_an_inherited_socket(start, client, environment):
    sock, port = listening_socket()
    with sock:
        process = start(
            "-m", "infra.runner", "sweep", "--fd", sock.fileno(), environment=environment, pass_fds=[sock.fileno()]
        )
    process.wait_for("function.ready")

    assert client.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
    assert inheritable(process.pid) == [], "a program that it starts gets the socket too"


def test_a_function_stands_by_until_infra_standby_serves_and_opens_nothing_before(start, client, environment):
    database = Path(environment["POSTROOM_DB"])
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{sock.getsockname()[1]}"
        words = ("-m", "infra.runner", "sweep", "--standby", "--fd", sock.fileno())
        process = start(*words, environment=environment, pass_fds=[sock.fileno()])
    process.wait_for("function.standing_by")
    with pytest.raises(httpx.ConnectError):
        client.get(f"{address}/healthz")
    assert not database.exists()

    lock = serving_lock(database)
    until(lock.try_acquire, "the lock was not free")
    process.wait_for("function.ready")

    assert client.get(f"{address}/healthz").status_code == 200
    lock.release()


def test_a_signal_while_a_function_stands_by_is_a_clean_end(start, environment):
    process = start("-m", "infra.runner", "sweep", "--standby", "--port", "0", environment=environment)
    process.wait_for("function.standing_by")

    assert process.stop(signal.SIGTERM)[0] == 0
    assert not Path(environment["POSTROOM_DB"]).exists()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_frameworks_own_command_serves_the_same_handler(start, client, environment, db, name):
    kept, port = kept_port()
    start(
        "-m",
        "functions_framework",
        "--asgi",
        "--source",
        f"functions/{name}.py",
        "--target",
        name,
        "--port",
        port,
        environment={**environment, "POSTROOM_DB": str(db), "HOST": "127.0.0.1", "PYTHONPATH": "."},
    )
    deadline = time.monotonic() + 90
    while True:
        try:
            answer = client.get(f"http://127.0.0.1:{port}/healthz")
            break
        except httpx.ConnectError:
            assert time.monotonic() < deadline, "the framework did not start"
            time.sleep(0.05)

    kept.close()
    assert (answer.status_code, answer.json()["ok"]) == (200, True)
