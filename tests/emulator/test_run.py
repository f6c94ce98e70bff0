"""The whole emulator on real processes."""

import contextlib
import http.client
import json
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.emulator.harness import Emulator, command, copy_project, descendants, fetch, launch, wait_gone, wait_until

pytestmark = pytest.mark.e2e

Start = Callable[..., Emulator]
STOP_LIMIT_S = 3.0


def test_everything_is_up_when_the_emulator_says_ready(running: Emulator) -> None:
    status = running.status

    assert status["ready"]
    assert {function["name"] for function in status["functions"]} == {
        "ingest", "dispatch", "deliver", "sweep", "recurrence", "api",
    }  # fmt: skip
    assert all(function["up"] for function in status["functions"])
    assert running.get("/_emulator/ready")[0] == 200
    assert running.get("/_emulator/health")[0] == 200
    assert running.get("/api/queue/status")[0] == 200
    assert running.get("/api/queue/status", base=running.instance["urls"]["api"])[0] == 200
    assert running.get("/_emulator/chat")[0] == 200


def test_ticks_arrive(running: Emulator) -> None:
    wait_until(
        lambda: any(line.get("event") == "sweep.done" for line in running.lines), what="the first tick of the sweep"
    )


def test_every_step_is_a_line_with_its_time(running: Emulator) -> None:
    steps = [line["step"] for line in running.lines if line["event"] == "step.done"]

    assert set(steps) == {
        "s3", "db", "replica", "ingest", "dispatch", "deliver", "sweep", "recurrence", "api", "gateway", "platforms",
    }  # fmt: skip
    assert all(line["ms"] >= 0 for line in running.lines if line["event"] == "step.done")


def test_a_second_start_in_the_folder_is_refused_and_harms_nothing(running: Emulator) -> None:
    second = command(running.project, "run", "--port", "0")

    assert second.returncode == 73
    assert f"emulator[{running.process.pid}]" in second.stderr
    assert running.url in second.stderr
    assert running.status["ready"]


def test_data_reset_is_refused_while_it_runs(running: Emulator) -> None:
    refused = command(running.project, "data", "reset", "--yes")

    assert refused.returncode == 73
    assert "stop the emulator first" in refused.stderr
    assert running.status["ready"]


def test_status_prints_text_and_json(running: Emulator) -> None:
    for_people, for_machines = command(running.project, "status"), command(running.project, "status", "--json")

    assert for_people.returncode == 0
    assert f"emulator[{running.process.pid}] ready" in for_people.stdout
    assert json.loads(for_machines.stdout)["urls"] == running.instance["urls"]


def test_the_chat_page_says_why_a_message_has_no_answer_in_the_words_of_why(running: Emulator) -> None:
    fakes, group = running.instance["urls"]["platforms"], "-4001002003"
    said = {"person": "5000000001", "chat": group, "text": "soup?"}
    _, answer = fetch(f"{fakes}/chat/telegram/say", method="POST", body=json.dumps(said).encode())
    message = json.loads(answer)["message_id"]
    path = f"/chat/telegram/chats/{group}/messages/{message}/why"

    found = wait_until(lambda: json.loads(running.get(path, base=fakes)[1])["why"], what="the reason")

    (told,) = json.loads(command(running.project, "why", message, "--platform-id", group, "--json").stdout)
    assert (found["state"], found["reason"]) == (told["state"], told["reason"])


def test_requests_are_listed_shown_and_sent_again(running: Emulator) -> None:
    fakes, said = running.instance["urls"]["platforms"], {"person": "5000000001", "text": "hello"}
    fetch(f"{fakes}/chat/telegram/say", method="POST", body=json.dumps(said).encode())

    def listed() -> list[dict[str, Any]]:
        found = json.loads(command(running.project, "requests", "list", "--chat", "5000000001", "--json").stdout)
        return [each for each in found if each["what"] == "message"]

    (first,) = wait_until(listed, what="the webhook")
    shown = json.loads(command(running.project, "requests", "show", first["id"], "--json").stdout)
    assert (shown["status"], shown["body"]["message"]["text"]) == (200, "hello")
    again = command(running.project, "requests", "replay", first["id"])
    assert again.stdout.endswith(f": the bot answered 200, as {first['id']} got 200.\n")
    refused = command(running.project, "requests", "replay", "in/7")
    assert (refused.returncode, "error: 'in/7' is no request" in refused.stderr) == (65, True)


def test_a_test_has_people_on_both_platforms_and_the_rows_behind_them(running: Emulator) -> None:
    """What the fixture for whoever extends Postroom gives, see docs/testing.md."""
    on_discord = running.discord.say("what is new?", person="Ben", chat="general")
    in_group = running.telegram.say("@postroom_bot soup today?", chat="Lunch group")

    assert on_discord.answer() == "You said: what is new?"
    assert "soup today?" in in_group.answer()
    running.wait_idle()
    sent = "SELECT r.status FROM responses r JOIN chats c ON c.id = r.chat_id WHERE c.platform_id = :chat"
    assert {row["status"] for row in running.rows(sent, chat=in_group.chat)} == {"acked"}
    assert running.discord.calls() != []
    assert "assistant" in running.api.get("agents")
    assert running.chat_page == f"{running.url}/_emulator/chat"


def test_a_test_that_waits_for_an_answer_in_vain_is_told_why(running: Emulator) -> None:
    running.telegram.say("@postroom_bot hello", chat="Lunch group").answer()  # an agent answers there from here on
    said = running.telegram.say("to nobody in particular", person="Ben", chat="Lunch group")
    dropped = "SELECT 1 FROM dropped WHERE platform_message_id = :message AND platform_id = :chat"
    running.wait_for(dropped, message=said.message, chat=said.chat)
    with pytest.raises(AssertionError, match=r"the bot said nothing within 0\.1 s: It was not addressed to an agent"):
        said.answer(limit_s=0.1)
    with pytest.raises(LookupError, match=r"there is no person 'Zoe' on telegram: Ana, Ben"):
        running.telegram.say("hello", person="Zoe")


def test_functions_get_no_variables_of_the_shell(running: Emulator) -> None:
    pids = {function["pid"] for function in running.status["functions"]}
    assert pids

    # A fork keeps the fork server's first environment in /proc, so look at the environment of every process.
    for pid in descendants(running.process.pid)[1:]:
        environ = Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "replace")
        names = {entry.partition("=")[0] for entry in environ.split("\0")}
        assert not names & {
            "AWS_CA_BUNDLE",
            "AWS_PROFILE",
            "HTTPS_PROXY",
            "https_proxy",
            "SSL_CERT_FILE",
            "VIRTUAL_ENV",
        }


@pytest.mark.parametrize("code", [0, 1, 7, 63])
def test_exec_against_a_running_emulator_ends_with_the_commands_code(running: Emulator, code: int) -> None:
    script = f'test "$EMULATOR_URL" = {running.url} && test -n "$EMULATOR_REPLICA_URL" && exit {code} || exit 99'

    done = command(running.project, "exec", "--", "sh", "-c", script)

    assert done.returncode == code
    assert done.stderr.count("\n") == 1
    assert running.status["ready"]


def test_exec_ends_with_128_plus_the_signal(running: Emulator) -> None:
    assert command(running.project, "exec", "--", "sh", "-c", "kill -9 $$").returncode == 128 + 9


def test_exec_of_an_unknown_command_ends_with_127(running: Emulator) -> None:
    done = command(running.project, "exec", "--", "no-such-command-anywhere")

    assert done.returncode == 127
    assert "command not found" in done.stderr


def test_a_saved_file_replaces_only_its_function_and_broken_code_replaces_none(emulator: Start, project: Path) -> None:
    running = emulator()
    source = project / "functions" / "sweep.py"
    code = source.read_text()
    before = {function["name"]: function["pid"] for function in running.status["functions"]}

    source.write_text(code + "\n# saved\n")
    wait_until(lambda: running.said("sweep reloaded in"), what="the reload")
    after = {function["name"]: function["pid"] for function in running.status["functions"]}
    assert {name for name in before if before[name] != after[name]} == {"sweep"}

    source.write_text("def broken(:\n")
    wait_until(lambda: running.said("sweep kept at generation 2"), what="the refusal of the broken code")
    status = next(function for function in running.status["functions"] if function["name"] == "sweep")
    assert (status["pid"], status["up"]) == (after["sweep"], True)
    assert "did not start" in status["stale"]
    assert running.said("SyntaxError")

    source.write_text(code)
    wait_until(lambda: running.said('"generation": 3'), what="the reload after the repair")
    assert running.status["ready"]
    assert running.stop() == 0


def test_a_saved_shared_module_reaches_every_function(emulator: Start, project: Path) -> None:
    running = emulator()
    before = {function["name"]: function["pid"] for function in running.status["functions"]}
    serving = project / "shared" / "runtime" / "app.py"

    serving.write_text(serving.read_text().replace('{"ok": True, ', '{"ok": True, "edited": True, '))
    wait_until(lambda: running.output.read_text().count(" reloaded in ") == 6, what="six reloads")

    for function in running.status["functions"]:
        assert function["pid"] != before[function["name"]]
        # The replaced process may take one more connection before its SIGTERM arrives.
        wait_until(partial(_is_edited, running, function["url"]), what="the new code")
    assert running.stop() == 0


def _is_edited(running: Emulator, url: str) -> bool:
    return "edited" in json.loads(running.get("/healthz", base=url)[1])


def test_a_changed_route_applies_at_once_and_a_broken_template_does_not(emulator: Start, project: Path) -> None:
    running = emulator()
    template = project / "template.yaml"
    good = template.read_text()

    template.write_text("Resources: [\n")
    wait_until(lambda: running.said("template.yaml:"), what="the problem with its place")
    assert running.get("/api/queue/status")[0] == 200

    template.write_text(good + "\n# saved\n")
    wait_until(lambda: running.output.read_text().count(" reloaded in ") == 6, what="six reloads")
    assert running.status["ready"]
    assert running.stop() == 0


def test_no_request_fails_while_functions_are_replaced(emulator: Start, project: Path) -> None:
    running = emulator()
    url, shared = running.url, project / "shared" / "core" / "time" / "clock.py"
    statuses, until = [], time.monotonic() + 90

    os.utime(shared)
    while not running.said("api reloaded in") and time.monotonic() < until:
        statuses.append(running.get("/healthz", base=url + "/api")[0])
    statuses += [running.get("/api/queue/status", base=url)[0] for _ in range(20)]

    assert running.said("api reloaded in")
    assert not [status for status in statuses if status >= 500]


def test_crashed_processes_are_restarted(emulator: Start) -> None:
    running = emulator("--no-watch")
    status = running.status
    dispatch = next(function["pid"] for function in status["functions"] if function["name"] == "dispatch")
    for pid in (dispatch, status["replica"]["pid"], status["s3"]["pid"]):
        os.kill(pid, signal.SIGKILL)

    wait_until(lambda: running.said("was killed by SIGKILL"), what="the end of dispatch")
    wait_until(lambda: running.said("litestream is up again"), what="litestream")
    wait_until(lambda: running.get("/_emulator/ready")[0] == 200, what="readiness")
    assert running.stop() == 0


def test_a_killed_supervisor_leaves_no_process_and_no_lock(emulator: Start) -> None:
    running = emulator("--no-watch")
    pids = running.pids()
    assert len(pids) >= 10

    running.process.kill()
    running.process.wait(60)

    wait_gone(pids)
    again = emulator("--no-watch")
    assert again.status["ready"]


def test_a_stop_is_in_time_with_an_open_event_stream(emulator: Start) -> None:
    """Within three seconds. On a busy machine a stop may take as long as the start."""
    slow_s = []
    while len(slow_s) < 5:
        running = emulator("--no-watch")
        limit_s = max(STOP_LIMIT_S, running.status["ready_s"])
        took_s = _stop_with_an_open_stream(running)
        if took_s <= limit_s:
            return
        slow_s.append(took_s)
    raise AssertionError(f"it took {slow_s} s")


def _stop_with_an_open_stream(running: Emulator) -> float:
    """Stop it; returns the seconds that it took."""
    pids = running.pids()
    connection = http.client.HTTPConnection(running.url.removeprefix("http://"), timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", "/api/events/stream")
        assert connection.getresponse().status == 200

        begun = time.monotonic()
        code = running.stop(signal.SIGTERM)
        took_s = time.monotonic() - begun

    assert code == 0
    wait_gone(pids)
    assert running.said("synced")
    return took_s


def test_a_lost_database_is_restored_from_the_bucket(emulator: Start, project: Path) -> None:
    # Emulators of other tests take the usual port whenever it is free, and the kernel gives none of this range away.
    s3_port = 20_000 + os.getpid() % 10_000
    state = project / ".emulator"
    state.mkdir()
    (state / "kept.json").write_text(json.dumps({"ports": {"s3": s3_port}}))
    running = emulator("--no-watch")
    said = command(project, "exec", "--", "sh", "-c", 'exec python3 -c "pass"')
    assert said.returncode == 0
    status, body = _send(running, "remember me")
    assert status in (200, 202), body
    s3_url = running.instance["urls"]["s3"]
    assert s3_url == f"http://127.0.0.1:{s3_port}"
    assert running.stop() == 0
    for file in state.glob("postroom.db*"):
        file.unlink()

    running = emulator("--no-watch")

    assert running.said("restored 1 messages from the replica")
    assert running.instance["urls"]["s3"] == s3_url  # the printed replica URL stays good
    assert running.stop() == 0


def _send(running: Emulator, text: str) -> tuple[int, bytes]:
    """One message through the REST interface; it is in the queue when this returns."""
    connection = http.client.HTTPConnection(running.url.removeprefix("http://"), timeout=60)
    body = json.dumps({"message": text, "channel": "api", "sender": "tester"})
    connection.request("POST", "/api/message", body=body, headers={"Content-Type": "application/json"})
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_a_used_port_is_reported_and_the_next_one_used(running: Emulator, emulator: Start, tmp_path: Path) -> None:
    port = running.url.rpartition(":")[2]

    second = emulator("--no-watch", "--port", port, at=copy_project(tmp_path / "second"))

    assert second.url != running.url
    assert second.said(f"port {port} is in use by python")
    assert second.stop() == 0


def test_exec_starts_its_own_emulator_and_leaves_nothing(project: Path) -> None:
    done = command(project, "exec", "--ephemeral", "--port", "0", "--", "sh", "-c", "test -d $EMULATOR_STATE; exit 5")

    assert done.returncode == 5, done.stderr
    assert "command exited 5" in done.stderr
    assert "state deleted" in done.stderr
    assert not (project / ".emulator").exists()


def test_a_function_that_does_not_load_is_shown_with_its_last_lines(project: Path) -> None:
    (project / "functions" / "sweep.py").write_text("raise RuntimeError('this is why')\n")

    refused = command(project, "run", "--port", "0", "--no-watch")

    assert refused.returncode == 69
    assert "sweep did not become ready" in refused.stderr
    assert "this is why" in refused.stderr


def test_a_live_token_in_the_project_is_refused(project: Path) -> None:
    (project / ".env").write_text("TELEGRAM_BOT_TOKEN=8123456789:AAFdEXAMPLEexampleEXAMPLEexample_-0\n")

    refused = command(project, "run", "--port", "0")

    assert refused.returncode == 77
    assert ".env:1" in refused.stderr
    assert "AAFd" not in refused.stderr + refused.stdout


def test_ctrl_c_while_it_starts_ends_it_cleanly(project: Path) -> None:
    starting = launch(project)
    wait_until(lambda: starting.said("emulator.starting"), what="the first line")
    pids = starting.pids()

    assert starting.stop() == 0
    wait_gone(pids)
