"""What the runner gives a function: lifespan, log lines, a time limit, and a clean end."""

import os
import signal
import socket
import time
from pathlib import Path

import httpx
import pytest

from tests.infra.processes import until

HANGS_S = 30.0  # longer than any test waits; an exit code of 0 proves that the limit of 2.8 s was not used


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


def test_a_function_gives_signs_of_life_again_and_again(serve, environment):
    """From its start, and as long as its event loop turns; by them others see that it does not hang."""
    process, _ = serve()
    process.wait_for("function.ready")
    sign = Path(environment["POSTROOM_RUN_DIR"]) / "sample.alive"
    until(sign.exists, "no sign of life")
    os.utime(sign, (0, 0))

    until(lambda: sign.stat().st_mtime > 0, "no sign of life")

    process.stop(signal.SIGTERM)
    assert not sign.exists(), "nobody is to miss it"


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


def test_a_signal_that_python_swallows_during_loading_ends_the_process_too(serve):
    process, _ = serve("freed")

    assert process.end() == 0
    assert process.err == []
    assert process.events("function.ready") == []


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
