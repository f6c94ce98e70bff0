"""An emulator in the background, from its start to its end, by the commands that a script uses."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from emulator.cli.app import app
from shared.db.engine.connection import open_connection
from tests.emulator.harness import command, copy_project, fetch, wait_gone, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.long]

HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project whose emulator runs in the background."""
    project = copy_project(tmp_path_factory.mktemp("detached") / "project")
    started = command(project, "run", "--detach", "--port", "0")
    assert started.returncode == 0, started.stderr
    assert "is ready in the background" in started.stdout
    yield project
    command(project, "stop")


def run(project: Path, *arguments: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, [*arguments, "--state", str(project / ".emulator"), "--json"])
    assert done.exit_code == code, done.stderr or done.stdout
    return json.loads(done.stdout)


def _is_well(project: Path) -> bool:
    return CliRunner().invoke(app, ["status", "--state", str(project / ".emulator")]).exit_code == 0


def fail(project: Path, *arguments: str, code: int) -> str:
    """What the command says on stderr."""
    done = CliRunner().invoke(app, [*arguments, "--state", str(project / ".emulator")])
    assert done.exit_code == code, done.stderr or done.stdout
    return done.stderr


def test_a_second_one_is_refused(project: Path) -> None:
    second = command(project, "run", "--detach", "--port", "0")
    assert (second.returncode, "is in use by emulator[" in second.stderr) == (73, True)


def test_a_script_waits_for_rows(project: Path) -> None:
    assert run(project, "wait")["condition"] == "ready"
    assert run(project, "wait", "idle")["condition"] == "idle"
    assert run(project, "wait", "SELECT count(*) > 0 FROM agents")["seconds"] < 60
    assert "was not true within 0.2 s" in fail(
        project, "wait", "SELECT count(*) = 7 FROM messages", "--timeout", "0.2", code=75
    )
    assert "no such column: nope" in fail(project, "wait", "SELECT nope", code=65)


def test_a_tick_is_sent_now_and_shows_what_it_did(project: Path) -> None:
    assert {each["function"] for each in run(project, "cron", "list")} == {"dispatch", "deliver", "sweep", "recurrence"}
    done = run(project, "cron", "run", "sweep")
    assert (done["status"], "failed" in json.loads(done["body"])) == (200, True)
    assert "these have one: dispatch" in fail(project, "cron", "run", "api", code=66)
    assert run(project, "cron", "next") == []


def test_one_function_is_called_past_the_gateway(project: Path, tmp_path: Path) -> None:
    body = tmp_path / "body.json"
    body.write_text(json.dumps({"agentId": "assistant", "message": "look", "channel": "api", "sender": "Ana"}))
    stored = run(project, "invoke", "api", "--path", "/api/message", "--data", f"@{body}")
    assert (stored["status"] // 100, stored["newRows"]["messages"]) == (2, 1)
    assert run(project, "wait", "idle")["condition"] == "idle", "the answer waits for a client that fetches it"
    refused = run(project, "invoke", "ingest", "--path", "/webhooks/telegram", "--data", "{}", code=1)
    assert refused["status"] == 401
    assert any(line["event"] == "ingest.refused" for line in refused["log"])


def test_a_platform_refuses_on_order_and_a_process_dies(project: Path) -> None:
    added = run(project, "fault", "add", "telegram", "status", "--status", "429", "--every", "2", "--for", "1h")
    assert [each["sentence"] for each in run(project, "fault", "list")] == [added["sentence"]]
    assert any("a fault is set by hand: telegram answers 429" in each for each in run(project, "status")["asWanted"])
    assert run(project, "fault", "lift")["lifted"] == 1
    assert "no fault has the number 99" in fail(project, "fault", "lift", "--id", "99", code=66)
    pid = run(project, "fault", "kill", "sweep")["pid"]
    wait_gone([pid])
    assert run(project, "fault", "hang", "recurrence", "--for", "1ms")["ms"] == 1
    assert "these run: ingest" in fail(project, "fault", "kill", "nobody", code=66)


def test_the_bucket_is_away_until_the_fault_is_lifted(project: Path) -> None:
    """The API and the emulator say why, and all is well again without further help."""
    sentence = run(project, "fault", "add", "bucket", "drop")["sentence"]
    (item,) = [each for each in run(project, "top")["mendsItself"] if each["key"].startswith("fault")]
    assert item["why"] == f"Bucket {sentence}. To lift it: emulator fault lift bucket."
    body = '{"agentId": "assistant", "message": "look", "channel": "api", "sender": "Ana"}'
    assert run(project, "invoke", "api", "--path", "/api/message", "--data", body)["status"] // 100 == 2
    unwell = run(project, "status", code=1)
    assert any(each.startswith("S3 (process") for each in unwell["needsYou"]), unwell["needsYou"]
    assert any("replication is behind" in each for each in unwell["needsYou"]), unwell["needsYou"]
    assert run(project, "fault", "lift", "bucket")["lifted"] == 1
    wait_until(lambda: _is_well(project), what="a replica that has caught up")


def rows(project: Path, sql: str) -> list[list[Any]]:
    found: list[list[Any]] = [list(each) for each in open_connection(database(project), readonly=True).execute(sql)]
    return found


def database(project: Path) -> Path:
    return project / ".emulator" / "postroom.db"


def test_two_days_of_schedules_run_in_order_each_at_its_instant(project: Path) -> None:
    command(project, "chat", "telegram", "hello", "--state", str(project / ".emulator"))
    run(project, "schedules", "add", "assistant", "the day", "--daily", "9:00", "--label", "daily")
    run(project, "schedules", "add", "assistant", "the hour", "--cron", "0 * * * *", "--label", "hourly")
    before = run(project, "clock", "show")
    assert before["sentence"] is None

    after = run(project, "clock", "jump", "2d")

    assert 0 <= after["now"] - before["now"] - 2 * DAY < HOUR
    began = rows(project, "SELECT due_at, started_at FROM schedule_runs ORDER BY id")
    on_the_hour = list(range(-(-before["now"] // HOUR) * HOUR, after["now"], HOUR))
    at_nine = [due for due in on_the_hour if due % DAY == 9 * HOUR]
    assert [due for due, _ in began] == sorted(on_the_hour + at_nine), "each run, in order, and none of them twice"
    assert all(due <= started < due + HOUR // 2 for due, started in began), "none waited for another instant"
    assert len(at_nine) >= 2
    assert after["stops"] >= len(on_the_hour)
    assert rows(project, "SELECT 1 FROM missed_runs") == []


def test_the_clock_is_kept_and_the_status_and_the_pages_say_loudly_that_it_is_not_the_real_one(project: Path) -> None:
    wait_until(lambda: _is_well(project), what="a system that is well after two days in seconds")
    status = run(project, "status")
    assert status["clock"]["sentence"].startswith("the clock here is not the real one: it says ")
    of_status = CliRunner().invoke(app, ["status", "--state", str(project / ".emulator")]).stdout
    assert of_status.splitlines()[1].startswith("  the clock here is not the real one: it says ")
    top = CliRunner().invoke(app, ["top", "--once", "--state", str(project / ".emulator")]).stdout
    assert top.startswith("The clock here is not the real one: ")
    page = json.loads(fetch(f"{status['urls']['gateway']}/_emulator/chat/unwell")[1])
    assert page["unwell"][0].startswith("The clock here is not the real one: ")
    assert abs(page["now"] - status["clock"]["now"]) < HOUR
    back = fail(project, "clock", "reset", code=65)
    assert "rows are never of the future" in back
    assert "rows are never of the future" in fail(project, "clock", "jump", "--to", "2026-01-01T00:00Z", code=65)


def test_a_function_that_starts_again_has_the_same_clock_and_so_has_its_writer(project: Path) -> None:
    run(project, "fault", "kill", "ingest")
    said = json.loads(command(project, "chat", "telegram", "and now?", "--json").stdout.splitlines()[0])
    assert said
    ((stored,),) = rows(project, "SELECT created_at FROM messages WHERE message = 'and now?'")
    assert abs(stored - run(project, "clock", "show")["now"]) < HOUR


def test_a_clock_that_stands_still_lets_nothing_become_due_and_a_leap_is_a_pause(project: Path) -> None:
    run(project, "wait", "idle")  # a turn under way would lose its lease in the leap, and hold the next ones back
    stands_at = run(project, "clock", "freeze")
    runs = rows(project, "SELECT count(*) FROM schedule_runs")
    assert stands_at["frozen"]
    assert run(project, "clock", "show")["now"] == stands_at["now"]

    leapt = run(project, "clock", "jump", "5h", "--leap")

    assert leapt["now"] == stands_at["now"] + 5 * HOUR
    run(project, "clock", "resume")
    run(project, "wait", "SELECT count(*) > 0 FROM missed_runs")
    assert rows(project, "SELECT count(*) FROM schedule_runs") in ([[runs[0][0] + 1]], [[runs[0][0] + 2]])
    assert run(project, "clock", "show")["frozen"] is False


def test_a_faster_clock_runs_each_instant_until_it_is_resumed(project: Path) -> None:
    begun = run(project, "clock", "show")["now"]  # what the leap left is due before it, and may run later
    assert run(project, "clock", "speed", "36000")["speed"] == 36000
    run(project, "wait", f"SELECT max(due_at) >= {begun + 3 * HOUR} FROM schedule_runs")
    assert run(project, "clock", "resume")["speed"] == 1
    grid = [
        due
        for (due,) in rows(
            project, f"SELECT due_at FROM schedule_runs WHERE due_at > {begun} AND due_at % {DAY} <> {9 * HOUR}"
        )
    ]
    assert len(grid) == len(set(grid)) >= 2
    assert run(project, "clock", "reset", "--force")["sentence"] is None


def test_a_full_disk_takes_nothing_and_all_goes_on_when_it_has_room(project: Path) -> None:
    call = ("--data", '{"agentId": "assistant", "message": "full", "channel": "api", "sender": "Ana"}')
    run(project, "fault", "add", "disk", "full")
    refused = run(project, "invoke", "api", "--path", "/api/message", *call, code=1)
    assert refused["status"] == 503, refused
    assert run(project, "invoke", "ingest", "--path", "/webhooks/telegram", "--data", "{}", code=1)["status"] == 401
    assert any("disk has no room for a write" in each for each in run(project, "status")["asWanted"])
    assert run(project, "fault", "lift", "disk")["lifted"] == 1
    assert run(project, "invoke", "api", "--path", "/api/message", *call)["newRows"]["messages"] == 1
    assert run(project, "wait", "idle")["condition"] == "idle"
    wait_until(lambda: _is_well(project), what="a system that is well")


def test_the_first_fault_of_models_puts_the_emulator_before_the_hosts(project: Path) -> None:
    def generation() -> int:
        status = json.loads(CliRunner().invoke(app, ["status", "--state", str(project / ".emulator"), "--json"]).stdout)
        return int(next(each["generation"] for each in status["functions"] if each["name"] == "dispatch"))

    before = generation()
    run(project, "fault", "add", "models", "status", "--status", "429", "--retry-after", "7", "--rate", "0.3")
    assert generation() == before + 1
    run(project, "fault", "add", "models", "garbage")
    assert generation() == before + 1
    assert "must be one of status" in fail(project, "fault", "add", "models", "full", code=65)
    assert run(project, "fault", "lift", "models")["lifted"] == 2


def test_stop_waits_for_the_end_and_may_be_repeated(project: Path) -> None:
    pid = run(project, "stop")["stopped"]
    assert isinstance(pid, int)
    wait_gone([pid])
    assert not (project / ".emulator" / "instance.json").exists()
    assert run(project, "stop") == {"stopped": None}
