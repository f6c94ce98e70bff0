"""From a person's message to the analyst's table, and the same when a part on the way breaks."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from shared.core.http_head import TICK_HEADER
from tests.e2e.conftest import ROOT, System, until

pytestmark = pytest.mark.e2e

ANA, BEN = "5000000001", "5000000002"
ANA_ON_DISCORD = "80000000000000001"


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """One system for all tests that leave it intact."""
    running = System(tmp_path_factory.mktemp("e2e") / "state")
    running.start()
    try:
        yield running
    finally:
        running.stop()


def say(system: System, text: str, person: str = ANA) -> None:
    """A person writes to the bot on Telegram."""
    status, body = system.post(f"/control/telegram/users/{person}/message", {"text": text}, "platforms")
    assert status in (200, 201), body


def sent(system: System, text: str) -> list[dict[str, Any]]:
    """The successful calls of sendMessage with this text."""
    calls = system.get("/control/telegram/calls?method=sendMessage", "platforms")[1]["calls"]
    return [call for call in calls if call["params"].get("text") == text and call["status"] == 200]


def restored(system: System, folder: Path) -> Path:
    """The path of a copy that is restored from the replica now."""
    target = folder / "restored.db"
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-east-1"}
    environment.pop("AWS_CA_BUNDLE", None)
    litestream = Path(sys.executable).with_name("litestream")

    def copied() -> bool:
        target.unlink(missing_ok=True)
        place = system.get("/_emulator/status")[1]["replica"]["place"]
        done = subprocess.run([litestream, "restore", "-o", target, place], env=environment, stderr=subprocess.PIPE)
        print(done.stderr.decode())
        return done.returncode == 0

    until("a replica that restores", copied)
    return target


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """Rows of a restored copy."""
    import apsw

    return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY).execute(sql).fetchall()


def test_a_telegram_message_is_answered_replicated_and_counted_by_spark(lasting: System, tmp_path: Path) -> None:
    say(lasting, "first light")

    until("the answer at Telegram", lambda: sent(lasting, "You said: first light"))
    until(
        "the acknowledged row in the replica",
        lambda: rows(
            restored(lasting, tmp_path),
            "SELECT 1 FROM responses WHERE message = 'You said: first light' AND status = 'acked'",
        ),
    )
    received = lasting.query("SELECT count(*) FROM messages WHERE channel = 'telegram'")[0][0]
    job = subprocess.run(
        [
            sys.executable,
            "-m",
            "spark_jobs.message_volume",
            "--replica",
            lasting.urls["replica"],
            "--out",
            tmp_path / "out",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert job.returncode == 0, job.stderr
    table = parquet.read_table(tmp_path / "out" / "parquet").to_pylist()
    assert sum(row["received"] for row in table if row["channel"] == "telegram") == received
    assert "telegram" in job.stdout


def test_a_discord_command_is_deferred_and_answered_by_editing(lasting: System) -> None:
    status, body = lasting.post(
        f"/control/discord/users/{ANA_ON_DISCORD}/ask", {"prompt": "hello from Discord"}, "platforms"
    )
    assert status in (200, 201), body

    def edits() -> list[dict[str, Any]]:
        calls = lasting.get("/control/discord/calls", "platforms")[1]["calls"]
        return [call for call in calls if "hello from Discord" in json.dumps(call["params"]) and call["status"] == 200]

    (edit,) = until("the edit of the deferred answer", edits)
    assert edit["params"]["body"]["content"] == "You said: hello from Discord"
    assert edit["params"]["body"]["allowed_mentions"] == {"parse": [], "replied_user": False}


def test_the_accounts_name_the_bots_of_the_fakes(lasting: System) -> None:
    found = {each["name"]: each for each in lasting.call("GET", "/api/accounts")}
    assert found["telegram"]["username"] == "postroom_bot"
    assert found["discord"]["botId"].isdigit()


def test_the_same_update_twice_is_one_message_and_one_reply(lasting: System) -> None:
    say(lasting, "only once")
    until("the answer", lambda: sent(lasting, "You said: only once"))
    deliveries = lasting.get("/control/telegram/webhook", "platforms")[1]["deliveries"]
    update = deliveries[-1]["update_id"]

    status, body = lasting.post(f"/control/telegram/updates/{update}/redeliver", {}, "platforms")
    assert status in (200, 201, 202), body
    say(lasting, "after it")
    until("the next answer", lambda: sent(lasting, "You said: after it"))

    assert lasting.query("SELECT count(*) FROM messages WHERE message = 'only once'") == [(1,)]
    assert len(sent(lasting, "You said: only once")) == 1


def test_a_wrong_secret_is_refused_and_leaves_nothing(lasting: System) -> None:
    before = lasting.query("SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM dropped)")
    update = {
        "update_id": 1,
        "message": {"message_id": 1, "date": 1, "chat": {"id": 1, "type": "private"}, "text": "x"},
    }

    wrong = lasting.post("/webhooks/telegram", update, headers={"X-Telegram-Bot-Api-Secret-Token": "guess"})
    missing = lasting.post("/webhooks/telegram", update)

    assert (wrong[0], missing[0]) == (401, 401)
    assert lasting.query("SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM dropped)") == before


def test_a_signed_body_that_cannot_be_read_is_accepted_and_kept_as_dropped(lasting: System) -> None:
    environment = json.loads((lasting.state / "instance.json").read_text())["environment"]
    headers = {"X-Telegram-Bot-Api-Secret-Token": environment["TELEGRAM_WEBHOOK_SECRET"]}

    answers = [lasting.post("/webhooks/telegram", b'{"update_id": 5, "mess', headers=headers) for _ in range(2)]

    assert answers == [(200, "")] * 2  # else Telegram holds back the chat for a day
    assert lasting.query("SELECT reason FROM dropped WHERE channel = 'telegram' AND reason = 'payload'") == [
        ("payload",)
    ]


def swept(system: System) -> bool:
    """A tick of sweep; false: another one is under way."""
    environment = json.loads((system.state / "instance.json").read_text())["environment"]
    (sweep,) = [each for each in system.get("/_emulator/status")[1]["functions"] if each["name"] == "sweep"]
    secret = {TICK_HEADER: environment["POSTROOM_TICK_SECRET"]}
    return system._request(f"{sweep['url']}/tick", b"", secret)[0] == 200


def test_what_is_not_well_is_told_in_a_chat_once_and_once_when_it_is_over(lasting: System) -> None:
    say(lasting, "I look after it", BEN)
    until("the answer", lambda: sent(lasting, "You said: I look after it"))
    ((chat,),) = lasting.query("SELECT id FROM chats WHERE channel = 'telegram' AND platform_id = ?", BEN)
    lasting.call("PUT", "/api/alerts/routes/ops", {"chatId": chat, "kinds": ["dead"]})
    rejected = lasting.api_message("!reject my secret")
    dead = "SELECT id FROM messages WHERE message_id = ? AND status = 'dead'"
    ((row,),) = until("the dead message", lambda: lasting.query(dead, rejected))

    until("a sweep", lambda: swept(lasting))
    address = f"{lasting.urls['gateway']}/#/queue/dead"
    (begun,) = until("the alert", lambda: alerts(lasting, address))
    assert (begun.count("dead, since"), begun.count("secret")) == (1, 0)

    lasting.call("DELETE", f"/api/queue/dead/{row}")
    for _ in range(2):
        until("a sweep", lambda: swept(lasting))
    (over,) = until("its end", lambda: alerts(lasting, "Over since "))
    assert begun.partition(", since")[0] in over
    assert len(alerts(lasting, address)) == 1
    (alert,) = lasting.call("GET", "/api/alerts")
    assert [each["route"] for each in alert["told"] if each["overToldAt"]] == ["ops"]
    lasting.call("DELETE", "/api/alerts/routes/ops")


def alerts(system: System, part: str) -> list[str]:
    """The texts that Telegram took, with *part* in them."""
    calls = system.get("/control/telegram/calls?method=sendMessage", "platforms")[1]["calls"]
    texts = [str(call["params"].get("text")) for call in calls if call["status"] == 200]
    return [text for text in texts if part in text]


def test_a_turn_whose_dispatch_is_killed_is_answered_once(lasting: System) -> None:
    dispatch = lasting.pids()["dispatch"]
    say(lasting, "!slow 4 survived", BEN)
    until("the turn to run", lambda: lasting.query("SELECT 1 FROM messages WHERE status = 'processing'"))

    os.kill(dispatch, signal.SIGKILL)

    until("the answer, by another process", lambda: sent(lasting, "survived"))
    assert lasting.query("SELECT status, retry_count FROM messages WHERE message = '!slow 4 survived'") == [
        ("completed", 0)
    ]
    say(lasting, "and after", BEN)
    until("the next answer", lambda: sent(lasting, "You said: and after"))
    assert len(sent(lasting, "survived")) == 1


# Its first line says where it goes on; a new conversation then never ends.
ENDLESS_AT_FIRST = """
import json, sys, time
turn = json.load(sys.stdin)
print(json.dumps({"type": "init", "continuation": turn["continuation"] or "thread-1"}), flush=True)
if turn["continuation"] is None:
    time.sleep(600)
print(json.dumps({"type": "result", "text": "went on in " + turn["continuation"]}))
"""


def test_a_turn_whose_dispatch_is_killed_goes_on_in_the_same_conversation(lasting: System) -> None:
    config = {"command": [sys.executable, "-I", "-S", "-c", ENDLESS_AT_FIRST]}
    lasting.call("PUT", "/api/agents/endless", {"name": "Endless", "provider": "command", "config": config})
    asked = lasting.call("POST", "/api/message", {"message": "hello", "agent": "endless"})["messageId"]
    until("the continuation", lambda: lasting.query("SELECT 1 FROM sessions WHERE continuation = 'thread-1'"))

    os.kill(lasting.pids()["dispatch"], signal.SIGKILL)

    said = "SELECT message FROM responses WHERE message_id = ?"
    assert until("the answer, by another process", lambda: lasting.query(said, asked)) == [("went on in thread-1",)]


def test_an_absence_of_s3_loses_nothing_and_the_replica_catches_up(system: System, tmp_path: Path) -> None:
    s3 = system.get("/_emulator/status")[1]["s3"]["pid"]
    os.kill(s3, signal.SIGSTOP)
    try:
        for number in range(5):
            say(system, f"while away {number}")
        until("the last answer", lambda: sent(system, "You said: while away 4"))
    finally:
        os.kill(s3, signal.SIGCONT)

    def caught_up() -> bool:
        copy = restored(system, tmp_path)
        return rows(copy, "SELECT count(*) FROM messages WHERE message LIKE 'while away %'") == [(5,)]

    until("all rows in the replica", caught_up)
    assert system.query("SELECT count(*) FROM messages WHERE message LIKE 'while away %'") == [(5,)]


def test_without_its_file_it_restores_itself_and_the_conversation_goes_on(system: System, tmp_path: Path) -> None:
    say(system, "!count")
    until("the first answer", lambda: sent(system, "This is turn 1 of our session."))
    epoch = system.query("SELECT value FROM meta WHERE key = 'epoch'")
    acked = "SELECT 1 FROM responses WHERE status = 'acked'"
    until("the answer in the replica", lambda: rows(restored(system, tmp_path), acked))
    assert system.stop() == 0
    for path in system.state.glob("postroom.db*"):
        path.unlink()

    system.start()
    say(system, "!count")

    until("the second answer", lambda: sent(system, "This is turn 2 of our session."))
    assert system.query("SELECT value FROM meta WHERE key = 'epoch'") != epoch
