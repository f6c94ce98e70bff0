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
from tests.infra.litestream.test_litestream import until
from tests.infra.processes import ROOT, kept_port, listening_socket
from tests.liveness import inheritable

HANGS_S = 30.0  # longer than any test waits; an exit code of 0 proves that the limit of 2.8 s was not used

FUNCTIONS = ("api", "deliver", "dispatch", "ingest", "recurrence", "sweep")


@pytest.fixture
def client():
    with httpx.Client(timeout=60, trust_env=False) as client:
        yield client


def _wake_ups(process):
    """How often the idle process was woken."""
    threads = Path(f"/proc/{process.pid}/task").iterdir()
    lines = [line for thread in threads for line in (thread / "status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def test_an_idle_function_does_not_work(serve, client):
    """It wakes once a second, for the time in the response headers; uvicorn's own loop wakes ten times."""
    process, url = serve()
    assert client.get(f"{url}/hello").status_code == 200
    client.close()
    woken = []
    while not woken or (min(woken) > 6 and len(woken) < 10):  # a busy machine wakes it more often
        time.sleep(0.5)
        before = _wake_ups(process)
        time.sleep(2)
        woken.append(_wake_ups(process) - before)

    assert min(woken) <= 6
    assert process.stop(signal.SIGTERM)[0] == 0


def test_the_event_loop_waits_briefly_for_a_busy_thread(serve, client):
    """A transaction of the writer gives the interpreter away some thirty times: with Python's 5 ms, it takes 0.15 s."""
    _, url = serve()
    assert client.get(f"{url}/threads").json() == {"hand_over_after_s": 0.0005}


# -- serving ----------------------------------------------------------------------------------------------------------


def test_the_lifespan_runs_around_the_requests_and_its_state_reaches_them(serve, client):
    process, url = serve()
    process.wait_for("function.ready")

    assert client.get(f"{url}/hello?a=1").json() == {"lifespan": "lifespan", "query": "a=1"}
    assert process.events("sample.closed") == []
    code, _ = process.stop(signal.SIGTERM)

    assert code == 0
    assert len(process.events("sample.opened")) == len(process.events("sample.closed")) == 1


def test_database_is_migrated_before_the_function_opens(serve, environment):
    process, _ = serve()
    process.wait_for("function.ready")

    assert Path(environment["POSTROOM_DB"]).stat().st_size > 0


def test_requests_that_wait_in_the_inherited_socket_are_answered(serve, client):
    """A socket that two processes share in turn refuses no connection."""
    _, url = serve()

    assert client.get(f"{url}/healthz").status_code == 200


def test_every_request_is_one_log_line_with_its_path_but_not_its_query(serve, client):
    process, url = serve()
    client.get(f"{url}/hello?token=secret")

    (line,) = process.wait_for("request.done")

    assert {key: line[key] for key in ("level", "function", "method", "path", "status")} == {
        "level": "info",
        "function": "sample",
        "method": "GET",
        "path": "/hello",
        "status": 200,
    }
    assert line["ms"] >= 0
    assert "secret" not in "".join(process.out)


def test_health_checks_and_ticks_are_not_logged(serve, client):
    process, url = serve()
    client.get(f"{url}/healthz")
    client.post(f"{url}/tick")
    client.get(f"{url}/hello")

    process.wait_for("request.done")

    assert [line["path"] for line in process.events("request.done")] == ["/hello"]


def test_an_exception_is_logged_once_without_local_variables(serve, client):
    process, url = serve()

    assert client.get(f"{url}/broken").status_code == 500
    (line,) = process.wait_for("request.failed")
    process.wait_for("request.done")

    assert "RuntimeError: broken on purpose, 13" in line["exception"]
    assert "do-not-log-me" not in line["exception"].replace('secret_local = "do-not-log-me"', "")
    assert len([entry for entry in process.out if "broken on purpose" in entry]) == 1


def test_a_stream_that_breaks_in_the_middle_looks_broken_to_the_client(serve, client):
    process, url = serve()

    with pytest.raises(httpx.RemoteProtocolError), client.stream("GET", f"{url}/breaks-off") as answer:
        answer.read()

    process.wait_for("request.failed")
    assert client.get(f"{url}/healthz").status_code == 200


# -- the time limit ----------------------------------------------------------------------------------------------------


def test_a_request_over_the_limit_is_cancelled_and_answered_504(serve, client):
    process, url = serve(timeout_ms=200)

    answer = client.get(f"{url}/slow?s=30")

    assert answer.status_code == 504
    assert answer.json() == {"error": "sample did not answer within 0.2 s; the request was cancelled"}
    process.wait_for("sample.slow_left")
    assert process.wait_for("request.done")[0]["status"] == 504
    assert process.wait_for("request.timeout")[0]["timeout_ms"] == 200


def test_an_answer_that_has_begun_is_not_cut(serve, client):
    _, url = serve(timeout_ms=1000)

    answer = client.get(f"{url}/drip?s=1.5")

    assert (answer.status_code, answer.text) == (200, "." * 10)


def test_a_timeout_of_the_functions_own_is_a_failure_and_not_a_504(serve, client):
    process, url = serve()

    assert client.get(f"{url}/own-timeout").status_code == 500
    process.wait_for("request.failed")


# -- the end -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_open_event_stream_ends_properly_and_at_once(serve, client, number):
    process, url = serve()
    with client.stream("GET", f"{url}/stream") as answer:
        lines = answer.iter_lines()
        assert next(lines) == "data: connected"
        process.signal(number)
        assert list(lines) == [""]  # the end of the body, and not a broken connection
        code = process.end()

    assert code == 0
    assert len(process.events("sample.stream_left")) == 1
    assert len(process.events("sample.closed")) == 1


def test_a_request_under_way_is_answered_before_the_end(serve, client):
    process, url = serve()
    client.get(f"{url}/healthz")
    with client.stream("GET", f"{url}/drip?s=0.5") as answer:
        process.signal(signal.SIGTERM)
        assert answer.read() == b"." * 10

    assert process.end() == 0


def test_a_slow_request_does_not_delay_the_stop(serve, client):
    process, url = serve(timeout_ms=60_000)
    with client.stream("GET", f"{url}/drip?s=300"):
        code, _ = process.stop(signal.SIGTERM)

    assert code == 0
    assert len(process.events("sample.closed")) == 1


def test_a_lifespan_that_hangs_at_the_stop_is_ended(serve):
    process, _ = serve("stubborn")
    process.wait_for("function.ready")

    code, took_s = process.stop(signal.SIGTERM)

    assert code == 1
    assert took_s < HANGS_S
    assert process.events("sample.hangs")
    assert any("Timeout" in line for line in process.err), "stderr shows where it hung"


def test_a_blocked_event_loop_is_ended(serve, client):
    process, url = serve()
    client.get(f"{url}/healthz")
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as sock:
        sock.sendall(b"GET /block?s=60 HTTP/1.1\r\nHost: x\r\n\r\n")
        process.wait_for("sample.blocking")
        code, took_s = process.stop(signal.SIGTERM)

    # Python runs a signal handler between two instructions; an interrupted sleep then continues.
    assert code == 1
    assert took_s < HANGS_S
    assert any("in block" in line for line in process.err)


def test_a_signal_while_the_lifespan_opens_is_a_clean_end(serve):
    process, _ = serve("late")
    process.wait_for("sample.opening")

    code, _ = process.stop(signal.SIGTERM)

    assert code == 0
    assert process.events("function.ready") == []
    assert process.err == []
    assert "Traceback" not in "".join(process.out)


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


def test_a_signal_that_python_swallows_during_loading_ends_the_process_too(serve):
    process, _ = serve("freed")

    assert process.end() == 0
    assert process.err == []
    assert process.events("function.ready") == []


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


UNKEPT = {"replicated": "POSTROOM_LITESTREAM_SOCKET", "telegramm=replicated": "known: api, discord, telegram"}


@pytest.mark.parametrize(("durability", "sentence"), UNKEPT.items(), ids=UNKEPT)
def test_a_functions_refusal_to_start_is_one_log_line(start, environment, durability, sentence):
    environment = {**environment, "POSTROOM_DURABILITY": durability}
    process = start("-m", "infra.runner", "ingest", "--port", "0", environment=environment)

    assert process.end() == 78
    (line,) = process.out
    assert '"function.refused"' in line
    assert sentence in line
    assert process.err == []


def test_a_function_that_does_not_load_logs_the_reason(serve):
    process, _ = serve("unloadable")

    assert process.end() == 70
    (line,) = process.events("function.broken")
    assert "No module named 'a_module_that_nobody_has'" in line["exception"]


def test_a_lifespan_that_fails_logs_the_reason(serve):
    process, _ = serve("unopened")

    assert process.end() == 3
    assert any("the sample's disk is full" in line for line in process.out)
    assert process.events("function.ready") == []


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
