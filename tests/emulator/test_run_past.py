"""The past beside the emulator whose past it is: it changes nothing there, sends to nobody, and stays the past."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.emulator.harness import Emulator, command, launch, wait_until
from tests.emulator.storage.test_s3_server import s3_server

pytestmark = [pytest.mark.e2e, pytest.mark.long]

REAL = {  # what a developer's shell may hold
    "TELEGRAM_BOT_TOKEN": "7100200300:" + "A" * 35,
    "TELEGRAM_API_BASE": "https://api.telegram.org",
    "TELEGRAM_SALES_BOT_TOKEN": "7100200301:" + "B" * 35,
}


def table(state: Path, sql: str) -> list[tuple[Any, ...]]:
    conn = apsw.Connection(str(state / "postroom.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        conn.set_busy_timeout(5000)
        return conn.execute(sql).fetchall()
    finally:
        conn.close()


def queue(state: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that a function could change."""
    names = ("messages", "responses", "sessions", "events", "agent_messages", "schedule_runs", "chats", "usage")
    return {name: table(state, f"SELECT * FROM {name} ORDER BY 1") for name in names}


def responses(state: Path) -> list[str]:
    """Their status, without the row from which the numbers of a new history go on."""
    return [row[0] for row in table(state, "SELECT status FROM responses WHERE status <> 'deleted' ORDER BY id")]


def said(project: Path, *arguments: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
    done = command(project, *arguments, env=REAL)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def write(project: Path, text: str) -> str:
    return said(project, "chat", "telegram", *text.split()).stdout.strip()


def objects(state: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in (state / "s3").rglob("*") if path.is_file()}


def functions(status: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in status["functions"]}


def ask(state: Path, path: str) -> Any:
    """The answer of the emulator in *state*."""
    from emulator.cli.client import get_json  # after the fixtures have set the environment

    return get_json(json.loads((state / "instance.json").read_text())["urls"]["gateway"], path)


def test_the_past_is_opened_killed_and_opened_again_and_sends_to_nobody(
    emulator: Callable[..., Emulator], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in REAL.items():
        monkeypatch.setenv(name, value)
    live = emulator("--no-watch")
    origin = project / ".emulator"
    assert write(project, "hello") == "You said: hello"
    os.kill(functions(live.status)["deliver"]["pid"], signal.SIGSTOP)
    command(project, "chat", "telegram", "--once", "held", "--timeout", "1")  # its answer is not sent
    wait_until(lambda: table(origin, "SELECT 1 FROM responses WHERE status = 'pending'"), what="a pending response")
    os.kill(functions(live.status)["dispatch"]["pid"], signal.SIGSTOP)
    command(project, "chat", "telegram", "--once", "waits", "--timeout", "1")
    wait_until(lambda: table(origin, "SELECT 1 FROM messages WHERE message = 'waits'"), what="a waiting message")
    wait_until(lambda: not live.status["replica"]["behind"], what="the replica")
    said(project, "status", code=1)  # asks the replica for a sync, and names the two that hang
    at = datetime.now(UTC).isoformat()
    for name in ("deliver", "dispatch"):
        os.kill(functions(live.status)[name]["pid"], signal.SIGCONT)
    assert write(project, "later").endswith("later")
    live.stop()
    bucket, before = objects(origin), queue(origin)

    with s3_server(origin / "s3") as port:
        url = f"s3://postroom-replica/db?endpoint=http://127.0.0.1:{port}"
        state = project / "past"
        options = ("--no-watch", "--state", str(state), "--from-replica", url, "--timestamp", at)
        opened = launch(project, *options)
        try:
            opened.wait_ready()
            then = queue(state)
            assert [text for (text,) in table(state, "SELECT message FROM messages")] == ["hello", "held", "waits"]
            assert [status for (status,) in table(state, "SELECT status FROM messages")][2] == "pending"
            assert [row[0] for row in table(state, "SELECT status FROM responses WHERE status <> 'deleted'")] == [
                "acked",
                "pending",
            ]

            for name, function in functions(ask(state, "/_emulator/status")).items():
                os.kill(function["pid"], signal.SIGKILL)
                wait_until(
                    lambda name=name: functions(ask(state, "/_emulator/status"))[name]["generation"] == 2,  # type: ignore[misc]
                    what=f"another {name}",
                )
            wait_until(lambda: opened.output.read_text().count('"worker.held"') >= 4, what="both workers' notes")
            assert queue(state) == then

            (session,) = json.loads(said(project, "sessions", "list", "--state", str(state), "--json").stdout)
            replayed = json.loads(
                said(
                    project, "replay", session["sessionId"], "--provider", "echo", "--state", str(state), "--json"
                ).stdout
            )
            assert [each["now"]["answers"] for each in replayed["messages"]] == [
                ["You said: hello"], ["You said: held"], ["You said: waits"]
            ]  # fmt: skip
            assert [row for row in queue(state)["messages"] if row in then["messages"]] == then["messages"]
            assert [row for row in queue(state)["responses"] if row in then["responses"]] == then["responses"]
            assert [
                row[0]
                for row in table(state, "SELECT DISTINCT status FROM responses WHERE id > 2 AND status <> 'deleted'")
            ] == ["pending"]
            calls = apsw.Connection(str(state / "platforms.db"), flags=apsw.SQLITE_OPEN_READONLY)
            assert calls.execute("SELECT method FROM calls").fetchall() == []
            calls.close()
            assert opened.stop(signal.SIGTERM) == 0
        finally:
            opened.process.kill()
            opened.process.wait(60)
        assert objects(origin) == bucket
    assert queue(origin) == before

    again = launch(project, "--no-watch", "--state", str(state))  # its replica is away, and nothing names it
    try:
        again.wait_ready()
        assert ask(state, "/_emulator/status")["past"]["asked"] == at
        assert "it sends to nobody" in said(project, "status", "--state", str(state)).stdout
        assert [row for row in queue(state)["messages"] if row in then["messages"]] == then["messages"]
    finally:
        again.stop()
        again.process.kill()
