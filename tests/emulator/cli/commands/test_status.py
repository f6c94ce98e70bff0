"""``emulator status`` and ``emulator verify`` of a Postroom elsewhere."""

import io
import json
import os
import re
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from emulator.base import errors
from emulator.base.state import FolderLock, StateFolder
from emulator.cli import client, output
from emulator.cli.app import app
from emulator.cli.client import RestClient
from emulator.cli.commands import status
from emulator.cli.output import local_time
from emulator.system.components import of_storage
from shared.core.time import clock
from shared.db.engine import meta
from shared.db.engine.connection import transaction
from shared.db.engine.owner_only import replace_text
from shared.db.platforms import channel_pauses, channel_watches
from shared.db.platforms.channel_watches import ChannelWatch
from shared.db.replica.last_comparison import LastComparison
from shared.db.roster import agent_pauses
from shared.db.spending import budgets
from shared.runtime.kick import Listener
from tests.emulator.cli.commands.conftest import Postroom
from tests.emulator.cli.test_client import answering
from tests.support import NOW, make_owner

EQUAL = LastComparison(NOW, "000000000000000a", 29, 1234, [], None)


def test_what_does_not_run_is_named_with_what_follows_from_it(postroom: Postroom) -> None:
    shown = postroom.run("status", code=1).stdout.splitlines()

    assert shown[0] == f"Postroom at {postroom.url}: NOT READY"
    assert "  not ready: dispatch does not run: no agent's turn begins" in shown
    assert "  not ready: deliver does not run: no response is sent" in shown
    assert postroom.run("status", "--json", code=1).stdout.startswith("{")


def needs(postroom: Postroom) -> list[str]:
    found: list[str] = json.loads(postroom.run("status", "--json", code=1).stdout)["needsYou"]
    return found


def test_a_channel_whose_token_is_refused_is_named(postroom: Postroom) -> None:
    with transaction(postroom.conn):
        channel_pauses.pause(postroom.conn, "telegram", "Telegram 401: Unauthorized", check_at=NOW, now_ms=NOW)
    try:
        sentence = "telegram is paused, and its answers wait: Telegram 401: Unauthorized. "
        assert any(each.startswith(sentence) for each in needs(postroom))
    finally:
        with transaction(postroom.conn):
            channel_pauses.resume(postroom.conn, "telegram", now_ms=NOW)


def test_an_agent_that_can_not_work_is_named_and_one_paused_by_hand_is_not(postroom: Postroom) -> None:
    with transaction(postroom.conn):
        agent_pauses.pause(postroom.conn, "assistant", "auth", "401: expired", now_ms=NOW)
    try:
        sentence = "agent assistant is paused (auth), and its messages wait: 401: expired. "
        assert any(each.startswith(sentence) for each in needs(postroom))
        assert f"  needs you: {sentence}" in postroom.run("status", code=1).stdout
    finally:
        postroom.run("agents", "resume", "assistant")
    postroom.run("agents", "pause", "assistant", "--reason", "on holiday")
    try:
        assert not any("assistant" in each for each in needs(postroom))
        sentence = "agent assistant is paused (by_hand), and its messages wait: on holiday. When it is fixed: emulator"
        assert f"  as you want it: {sentence} agents resume assistant" in postroom.run("status", code=1).stdout
    finally:
        postroom.run("agents", "resume", "assistant")


def test_a_deaf_channel_and_a_used_up_budget_are_named(postroom: Postroom) -> None:
    with transaction(postroom.conn):
        watch = ChannelWatch("telegram", NOW, None, None, 0, "deaf", "elsewhere", "no webhook is registered", NOW)
        channel_watches.put(postroom.conn, watch)
        budgets.put(postroom.conn, None, "day", "tokens", 0, now_ms=NOW)
    try:
        said = postroom.run("status", code=1).stdout
        assert "  needs you: telegram receives nothing: no webhook is registered. To fix it: " in said
        assert "  needs you: the budget in tokens of all agents for this day is used up, so messages wait" in said
    finally:
        postroom.conn.execute("DELETE FROM channel_watches")
        postroom.conn.execute("DELETE FROM budgets")


def test_a_time_is_told_in_the_same_words_here_and_elsewhere() -> None:
    facts = {
        "pid": 7, "ready": True, "state": "/s", "uptime_s": 2922.4, "notReady": [], "needsYou": [], "asWanted": [],
        "urls": {}, "functions": [], "proven": None,
    }  # fmt: skip
    assert next(iter(status._emulator_lines(facts))) == "emulator[7] ready, up 48 min 42 s, state /s"
    elsewhere = {"replica": None, "uptime": 2922, "functions": {}, "lastSweep": None}
    assert status._health(elsewhere, None)["api"] == "up, for 48 min 42 s"


@pytest.mark.parametrize(("is_up", "asked_api"), [(True, ["/api/status"]), (False, [])])
def test_an_api_that_hangs_is_not_waited_for_twice(tmp_path: Path, is_up: bool, asked_api: list[str]) -> None:
    """The emulator tells that it hangs, after the seconds that it gave it."""
    function = {"name": "api", "up": is_up, "hangs": not is_up, "generation": 1, "pid": 7, "stale": None}
    facts = {
        "pid": 7, "ready": is_up, "state": "/s", "uptime_s": 1, "notReady": [], "needsYou": [], "problems": [],
        "asWanted": [], "urls": {}, "functions": [function],
    }  # fmt: skip
    state = StateFolder(tmp_path / "state")
    state.prepare()
    lock = FolderLock(state)
    lock.take()
    try:
        with answering(200, json.dumps(facts).encode()) as (url, asked):
            replace_text(state.instance_file, json.dumps({"urls": {"gateway": url, "api": url}, "environment": {}}))
            status._of_emulator(state.path)
    finally:
        lock.release()
    assert [path for _, path, *_ in asked] == ["/_emulator/status", *asked_api]


def test_an_emulator_that_does_not_answer_is_named_with_why_and_what_next(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / ".emulator")
    state.prepare()
    lock = FolderLock(state)
    lock.take()
    url = "http://127.0.0.1:1"
    with subprocess.Popen(["sleep", "60"]) as process:
        instance = {"pid": process.pid, "urls": {"gateway": url, "api": url}, "environment": {}}
        replace_text(state.instance_file, json.dumps(instance))
        said = f"emulator[{process.pid}] does not answer at {url}: "
        with pytest.raises(errors.NotReady, match=re.escape(f"{said}it hangs, or this machine is very busy. `")):
            status._of_emulator(state.path)
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        stopped = f"{said}it is stopped, as by SIGSTOP. `kill -CONT {process.pid}` lets it go on"
        with pytest.raises(errors.NotReady, match=re.escape(stopped)):
            status._of_emulator(state.path)
        process.kill()
    lock.release()


LAG = "the bucket does not answer"


@pytest.mark.parametrize(
    ("down", "silent", "lag", "durability", "told"),
    [
        (None, None, None, "local", []),
        ("it ended with code 3", "S3 is silent", None, "local", ["S3 is down: it ended with code 3"]),
        (None, "S3 is silent", LAG, "local", ["S3 is silent", f"replication is behind: {LAG} (the rows are safe on"]),
        (None, None, LAG, "replicated", [f"replication is behind: {LAG}. What waits for it by POSTROOM_DURABILITY="]),
    ],
    ids=["well", "down", "silent, so behind", "behind, and waited for"],
)
def test_s3_and_a_replica_that_is_behind_are_told_in_the_same_words_here_and_elsewhere(
    down: str | None, silent: str | None, lag: str | None, durability: str, told: list[str]
) -> None:
    sentences = of_storage(down, silent, lag, durability)
    assert [each.startswith(start) for each, start in zip(sentences, told, strict=True)] == [True] * len(told)
    stops, needs = (sentences, []) if durability == "replicated" else ([], sentences)
    of_both = {"notReady": stops, "needsYou": needs, "asWanted": []}
    here = list(status._emulator_lines({
        **of_both, "pid": 7, "ready": not stops, "state": "/s", "uptime_s": 1, "urls": {}, "functions": [],
        "proven": None,
    }))  # fmt: skip
    assert here[0].startswith("emulator[7] NOT READY" if stops else "emulator[7] ready")
    health = {**of_both, "ok": not sentences, "replica": {"problem": lag}, "uptime": 1, "functions": {}}
    answers = {"health": {**health, "lastSweep": None}, "status": {"replica": None}}
    found = status._of_postroom(Elsewhere(answers))
    elsewhere = io.StringIO()
    output.write(found, as_json=False, stream=elsewhere)
    lines = elsewhere.getvalue().splitlines()
    assert lines[0] == f"Postroom at http://elsewhere: {'NOT READY' if stops else 'ready'}"
    of_replica = [each for each in here if each.startswith(("  not ready: ", "  needs you: "))]
    assert of_replica == lines[1 : 1 + len(told)]
    assert f"replica  {lag or 'up to date'}" in " ".join(lines)
    assert found.code == (1 if told else 0)


class Elsewhere(RestClient):
    """A Postroom that answers from a table."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__("http://elsewhere", None)
        object.__setattr__(self, "answers", answers)

    def get(self, *path: Any, **query: Any) -> Any:
        return self.answers[path[0]]


def test_what_runs_is_well(postroom: Postroom, monkeypatch: pytest.MonkeyPatch) -> None:
    make_owner(postroom.conn)
    listening = [Listener(postroom.run_dir, name) for name in ("dispatch", "deliver")]
    with transaction(postroom.conn):
        meta.put(postroom.conn, "heartbeat_at", str(clock.now_ms()))
    monkeypatch.setenv("POSTROOM_URL", postroom.url)
    try:
        shown = CliRunner().invoke(app, ["status"])
    finally:
        for each in listening:
            each.close()

    assert shown.exit_code == 0, shown.stdout
    assert shown.stdout.startswith(f"Postroom at {postroom.url}: ready\n")
    assert "not watched by the API" in shown.stdout, "this one has no Litestream"


def test_without_a_comparison_verify_says_who_makes_one(postroom: Postroom) -> None:
    assert "run `python -m infra.verify` on its machine" in postroom.refused("verify", code=69)


def test_verify_shows_the_newest_comparison(postroom: Postroom) -> None:
    path = postroom.db
    try:
        EQUAL.write(path)
        shown = postroom.run("verify").stdout
        assert f"of {local_time(NOW)}, found that a restore from the bucket equals the database: 1234 rows" in shown
        assert json.loads(postroom.run("verify", "--json").stdout)["equal"] is True

        EQUAL._replace(differences=["agents", "chats"]).write(path)
        assert "found differences in agents, chats: 1234 rows in 29 tables" in postroom.run("verify", code=65).stdout
        assert "the replica lacks something" in postroom.run("status", code=1).stdout

        EQUAL._replace(damage="files are missing").write(path)
        assert "found that the bucket can't be restored: files are missing" in postroom.run("verify", code=65).stdout
    finally:
        path.with_name(f"{path.name}-compared").unlink()


def test_a_state_folder_and_an_address_are_two_postrooms() -> None:
    for command in ("status", "verify"):
        refused = CliRunner().invoke(app, [command, "--state", "x", "--url", "http://127.0.0.1:1"])
        assert refused.exit_code == 64
        assert "name two different Postrooms" in refused.stderr


def test_an_address_where_nothing_answers_is_told() -> None:
    refused = CliRunner().invoke(app, ["status", "--url", "http://127.0.0.1:1"])
    assert refused.exit_code == 69
    assert "http://127.0.0.1:1 does not answer" in refused.stderr


def test_an_api_that_never_answers_is_asked_no_longer_than_the_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(errors.TimedOut, match=r"did not answer within 0\.05 s"):
            RestClient(url, None, limit_s=0.05).get("status")


def test_a_command_that_emulator_exec_runs_is_about_its_emulator() -> None:
    """``exec`` sets the address too, and an address alone would mean a Postroom elsewhere."""
    environ = {"POSTROOM_URL": "http://u", "EMULATOR_API": "http://u", "EMULATOR_STATE": "/state"}
    assert str(client.emulator_folder(None, "http://u", environ)) == "/state"
    assert client.emulator_folder(None, "http://other", environ) is None
    assert client.emulator_folder(None, "http://u", {"POSTROOM_URL": "http://u"}) is None
    assert str(client.emulator_folder(None, None, {})) == ".emulator"
