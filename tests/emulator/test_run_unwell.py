"""``emulator status`` names what is not ready, also where every process runs."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from tests.emulator.harness import Emulator, command, fetch, wait_until
from tests.liveness import freeze
from tests.shared.runtime.test_signs_of_life import LONG_MS, grow_silent

pytestmark = [pytest.mark.e2e, pytest.mark.long]

Start = Callable[..., Emulator]


def send(running: Emulator) -> int:
    """A message, so that there are rows to replicate; the status of the answer."""
    body = json.dumps({"message": "hello"}).encode()
    return fetch(f"{running.instance['urls']['api']}/api/message", method="POST", body=body)[0]


def told(running: Emulator, part: str) -> bool:
    """Whether a note, an event or a log line has *part*."""
    texts = (str(line.get(name, "")) for line in running.lines for name in ("note", "text", "reason"))
    return any(part in text for text in texts)


def generation(running: Emulator, name: str) -> int:
    """How many processes the function has had."""
    return next(int(each["generation"]) for each in running.status["functions"] if each["name"] == name)


@pytest.mark.parametrize("durability", ["local", "replicated"])
def test_an_s3_that_stands_still_and_a_replica_that_is_behind_are_named(
    emulator: Start, project: Path, durability: str
) -> None:
    """Both processes run, so only a question to them tells. Work stops where it waits for the replica."""
    (project / ".env").write_text(f"POSTROOM_DURABILITY={durability}\n")
    running = emulator("--no-watch")
    s3 = running.status["s3"]["pid"]
    os.kill(s3, signal.SIGSTOP)
    try:
        assert send(running) == (200 if durability == "local" else 503)
        shown = command(project, "status")
        page = json.loads(running.get("/_emulator/chat/unwell")[1])["unwell"]
        ready = running.get("/_emulator/ready")
        health = json.loads(running.get("/api/health", base=running.instance["urls"]["api"])[1])
    finally:
        os.kill(s3, signal.SIGCONT)

    word = "needs you" if durability == "local" else "not ready"
    assert shown.returncode == 1
    assert f"emulator[{running.process.pid}] {'ready' if durability == 'local' else 'NOT READY'}," in shown.stdout
    sentences = [line.strip() for line in shown.stdout.splitlines() if line.startswith(f"  {word}: ")]
    assert sentences[0].startswith(f"{word}: S3 (process {s3}) does not answer within 1 s at http://127.0.0.1:")
    assert sentences[1].startswith(f"{word}: replication is behind: ")
    assert len(sentences) == 2
    assert page == sentences
    assert ready[0] == (200 if durability == "local" else 503)
    told_by_api = health["needsYou" if durability == "local" else "notReady"]
    assert [each.partition(": ")[0] for each in told_by_api] == ["replication is behind"]
    wait_until(lambda: command(project, "status").returncode == 0, what="an emulator that is well again")
    assert running.stop() == 0


def test_a_dead_s3_is_named_with_its_cause(emulator: Start, project: Path) -> None:
    """The status once said "NOT READY" and listed six functions that were up."""
    running = emulator("--no-watch")
    s3 = running.status["s3"]["pid"]
    (project / "emulator" / "storage" / "s3_server.py").write_text("raise SystemExit(3)\n")
    os.kill(s3, signal.SIGKILL)
    wait_until(lambda: running.said("S3 ended with code 3"), what="an S3 that does not come up again")

    def named() -> bool:
        shown = command(project, "status")
        return shown.returncode == 1 and "needs you: S3 is down: it ended with code 3 and is restarted" in shown.stdout

    wait_until(named, what="the cause in the status")
    assert running.get("/_emulator/ready") == (200, b'{"status": "ready"}'), "messages are stored all the same"


def test_a_function_that_is_down_is_named_once_with_its_cause(emulator: Start, project: Path) -> None:
    """The API tells too that nobody listens; the emulator knows why."""
    running = emulator("--no-watch")
    pid = next(each["pid"] for each in running.status["functions"] if each["name"] == "dispatch")
    (project / "functions" / "dispatch.py").write_text("raise SystemExit(3)\n")
    os.kill(pid, signal.SIGKILL)

    def said() -> list[str]:
        shown = command(project, "status").stdout.splitlines()
        return [line for line in shown if "dispatch" in line and "/dispatch" not in line]

    def is_down() -> bool:
        lines = said()
        return len(lines) == 2 and lines[0].startswith("  not ready: dispatch does not run: it ended")

    wait_until(is_down, what="one sentence with the cause, and one line of the table")
    assert said()[1].startswith("  dispatch    down, generation ")


def test_a_function_that_hangs_is_named_everywhere_until_it_goes_on(emulator: Start, project: Path) -> None:
    """Its process runs and listens: status and readiness were fine, and only the log told of its ticks."""
    running = emulator("--no-watch")
    pid = next(each["pid"] for each in running.status["functions"] if each["name"] == "deliver")
    freeze(pid)
    try:
        grow_silent(Path(running.instance["environment"]["POSTROOM_RUN_DIR"]), "deliver", LONG_MS)
        shown = command(project, "status").stdout
        ready = running.get("/_emulator/ready")
        top = command(project, "top", "--once").stdout
    finally:
        os.kill(pid, signal.SIGCONT)

    lines = [line for line in shown.splitlines() if line.startswith("  not ready: ")]
    assert len(lines) == 1, "the API tells too that it hangs"
    begin = f"  not ready: deliver does not run: its process {pid} does not answer within 1 s; it is stopped"
    assert lines[0].startswith(begin)
    assert "as by SIGSTOP; it has given no sign of life for 2 d 3 h" in lines[0]
    assert f"  deliver     hangs, generation 1, pid {pid}" in shown
    assert (ready[0], b"deliver does not run" in ready[1]) == (503, True)
    assert "deliver does not run: no response is sent" in top
    wait_until(lambda: command(project, "status").returncode == 0, what="an emulator that is well again")
    wait_until(lambda: "No problems." in command(project, "top", "--once").stdout, what="a sign of life")
    assert running.stop() == 0


def test_a_fault_of_models_that_dispatch_can_not_take_is_refused_and_taken_later(
    emulator: Start, project: Path
) -> None:
    """It was set, and did nothing: a dispatch that could not start anew went on asking the hosts themselves."""
    running = emulator("--no-watch")
    code = project / "functions" / "dispatch.py"
    good = code.read_text()
    code.write_text("raise SystemExit(3)\n")
    refused = command(project, "fault", "add", "models", "garbage")
    assert (refused.returncode, generation(running, "dispatch")) == (75, 1)
    assert "what is on disk did not start (it ended with code 3 before it was ready): mend that first" in refused.stderr
    assert "no fault is set" in command(project, "fault", "list").stdout

    code.write_text(good)
    assert command(project, "fault", "add", "models", "garbage").returncode == 0
    assert command(project, "fault", "add", "models", "drop").returncode == 0
    assert generation(running, "dispatch") == 2
    assert running.stop() == 0


def test_the_log_has_what_the_terminal_had_and_is_private(emulator: Start, project: Path) -> None:
    running = emulator("--no-watch")
    log = project / ".emulator" / "logs" / "emulator.log"
    assert running.stop() == 0

    found = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert {"emulator.starting", "step.done", "emulator.ready", "function.ready", "emulator.stopping"} <= set(found)
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_failed_start_is_in_the_log(project: Path) -> None:
    (project / "postroom.toml").write_text("[agents.front]\nbatch_size = 0\n")
    refused = command(project, "exec", "--port", "0", "--", "true")

    assert refused.returncode == 78
    last = json.loads((project / ".emulator" / "logs" / "emulator.log").read_text().splitlines()[-1])
    assert (last["event"], last["level"]) == ("emulator.failed", "error")
    assert last["reason"] in refused.stderr


def test_a_changed_env_file_is_taken_and_its_unknown_names_are_told(emulator: Start, project: Path) -> None:
    (project / ".env").write_text("POSTROOM_TIMZONE=Asia/Tokyo\n")
    running = emulator()
    assert told(running, ".env:1: POSTROOM_TIMZONE is no setting of a function, and nothing here reads it; did you")

    (project / ".env").write_text("POSTROOM_API_TOKEN=a-token-of-the-tests\nCOLOUR=red\n")
    wait_until(lambda: told(running, ".env changed → api reloaded"), what="the new settings")
    assert told(running, ".env:2: COLOUR is no setting of a function, and nothing here reads it")
    wait_until(lambda: running.get("/api/agents", base=running.instance["urls"]["api"])[0] == 401, what="the token")

    (project / ".env").write_text("POSTROOM_BATCH_SIZE=many\n")
    wait_until(lambda: told(running, ".env changed → api kept at generation"), what="the refusal")
    assert told(running, "settings: .env:1: POSTROOM_BATCH_SIZE: should be a valid integer")
    (project / ".env").write_text("this is no setting\n")
    wait_until(lambda: told(running, ".env:1: expected NAME=value"), what="the unreadable line")
    (project / ".env").unlink()
    wait_until(lambda: running.get("/api/agents", base=running.instance["urls"]["api"])[0] == 200, what="no token")
    assert running.stop() == 0


def test_a_damaged_file_of_fake_chats_ends_the_start_with_a_sentence(project: Path) -> None:
    (project / ".emulator").mkdir()
    (project / ".emulator" / ".postroom-state").touch()
    (project / ".emulator" / "platforms.db").write_bytes(b"no database " * 500)
    refused = command(project, "run", "--port", "0", "--no-watch")

    assert refused.returncode == 65, refused.stderr
    assert "platforms.db, the chats on the fake platforms, can't be read" in refused.stderr
    assert "Traceback" not in refused.stdout + refused.stderr


def test_a_foreign_trigger_ends_the_start_with_a_sentence(emulator: Start, project: Path) -> None:
    assert emulator("--no-watch").stop() == 0
    conn = apsw.Connection(str(project / ".emulator" / "postroom.db"))
    conn.execute("CREATE TRIGGER spy AFTER INSERT ON messages BEGIN SELECT 1; END")
    conn.close()
    refused = command(project, "run", "--port", "0", "--no-watch")

    assert refused.returncode == 65, refused.stderr
    assert refused.stderr.count("has the trigger 'spy', which Postroom did not make") == 1
    assert "Traceback" not in refused.stdout + refused.stderr
