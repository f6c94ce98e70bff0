"""What a mart holds of people: no text, hashed names, and nothing of a person who was taken out."""

import hashlib
import json
from pathlib import Path

import pytest
from pyarrow import parquet as pq

from spark_jobs.__main__ import main
from spark_jobs.mart.places import present
from tests.spark_jobs.mart.publishing import DAY_MS, KEY, NOON, event, rows_of


def test_without_text_no_file_holds_what_people_wrote(primary, run, mart, capsys):
    primary.receive(2)
    said = {"reason": "the agent said: grüße", "failure": "error", "retry_count": 1}
    event(primary, "message_retry", NOON, message_id="m_0", data=json.dumps(said, ensure_ascii=False))
    event(primary, "response_dead", NOON, response_id=1, data='{"reason": "the series was cancelled"}')
    primary.execute("UPDATE messages SET script = 'echo grüße' WHERE id = 1")
    assert run(mart, "--without-text") == 0
    assert [json.loads(row["data"]) for row in rows_of(mart, "events")] == [
        {"failure": "error", "retry_count": 1},
        {"failure": "called_off"},
    ]
    assert "message" not in rows_of(mart, "messages")[0]
    assert not {"instructions", "config", "transcriber", "speaker"} & rows_of(mart, "agents")[0].keys()
    for path in Path(mart).rglob("*.parquet"):
        assert "grüße" not in str(pq.read_table(path).to_pylist())
    primary.receive(1)
    assert run(mart) == 64
    assert "was begun with --without-text" in capsys.readouterr().err


def test_hashed_people_are_equal_where_they_were_equal(primary, run, mart, monkeypatch, capsys):
    primary.receive(2)
    assert run(mart, "--hash-people") == 64
    assert "POSTROOM_MART_KEY" in capsys.readouterr().err
    monkeypatch.setenv("POSTROOM_MART_KEY", KEY)
    assert run(mart, "--hash-people") == 0
    (sender,) = {row["sender"] for row in rows_of(mart, "messages")}
    assert sender != "ann"
    assert len(sender) == 32
    assert sender != hashlib.sha256(b"ann").hexdigest()[:32]
    primary.receive(1)
    monkeypatch.setenv("POSTROOM_MART_KEY", KEY + "!")
    assert run(mart, "--hash-people") == 64
    assert "is not the key" in capsys.readouterr().err


@pytest.mark.parametrize("options", [(), ("--hash-people",)])
def test_a_person_is_taken_out_and_stays_out(primary, run, anywhere, options, monkeypatch):
    monkeypatch.setenv("POSTROOM_MART_KEY", KEY)
    primary.receive(4)
    primary.execute("UPDATE messages SET sender_id = CASE WHEN id % 2 THEN '42' ELSE '7' END")
    primary.execute(
        "INSERT INTO agent_messages (agent_id, role, channel, sender, message_id, content, created_at)"
        " VALUES ('a', 'assistant', 'telegram', 'a', ?, 'an answer', ?)",
        [("m_0", NOON), ("m_1", NOON)],
    )
    primary.execute(
        "INSERT INTO users (channel, sender_id, name, created_at, updated_at) VALUES ('telegram', ?, ?, 1, 1)",
        [("42", "Ann"), ("7", "Bob")],
    )
    primary.execute(
        "INSERT INTO chats (id, channel, platform_id, is_group, created_at, updated_at)"
        " VALUES (9, 'telegram', '-100', 1, 1, 1)"
    )
    primary.execute(
        "INSERT INTO sessions (session_id, agent, chat_id, private_to, created_at, last_active)"
        " VALUES (?, 'a', 9, ?, 1, 1)",
        [("session_a", "42"), ("session_b", "7")],
    )
    assert run(anywhere, *options) == 0
    assert main(["forget", "--mart", anywhere, "--channel", "telegram.sales", "--sender-id", "42"]) == 0
    assert [row["message_id"] for row in rows_of(anywhere, "messages")] == ["m_1", "m_3"]
    assert [row["message_id"] for row in rows_of(anywhere, "agent_messages")] == ["m_1"]
    assert len(rows_of(anywhere, "users")) == 1

    primary.receive(2, at=NOON + DAY_MS)
    primary.execute("UPDATE messages SET sender_id = '42' WHERE id > 4")
    assert run(anywhere, *options) == 0
    assert [row["message_id"] for row in rows_of(anywhere, "messages")] == ["m_1", "m_3"]
    assert len(rows_of(anywhere, "users")) == 1
    assert "session_a" not in {row["session_id"] for row in rows_of(anywhere, "sessions")}
    assert "session_b" in {row["session_id"] for row in rows_of(anywhere, "sessions")}


def test_without_the_key_nobody_can_try_the_ids_of_those_who_were_taken_out(primary, run, mart, monkeypatch):
    monkeypatch.setenv("POSTROOM_MART_KEY", KEY)
    assert run(mart, "--hash-people") == 0
    assert main(["forget", "--mart", mart, "--channel", "telegram", "--sender-id", "42"]) == 0
    privacy = present(mart)[0].privacy
    tried = [hashlib.sha256(f"{privacy.salt}\n{platform}\n42".encode()).hexdigest() for platform in ("telegram", "")]
    assert privacy.forgotten
    assert not {*tried} & {*privacy.forgotten}


def test_no_earlier_generation_keeps_a_person_who_was_taken_out(primary, run, mart):
    primary.receive(2)
    primary.execute("UPDATE messages SET sender_id = '42'")
    assert run(mart) == 0
    assert main(["forget", "--mart", mart, "--channel", "telegram", "--sender-id", "42"]) == 0
    for path in Path(mart).rglob("*"):
        if path.is_file():
            assert b"42" not in path.read_bytes() or path.name == "manifest.json"
    assert [path.name for path in (Path(mart) / "generations").iterdir()] == ["000002"]
    assert not [row for path in Path(mart).rglob("messages/**/*.parquet") for row in pq.read_table(path).to_pylist()]


def test_forget_says_where_there_is_no_mart(mart, capsys):
    assert main(["forget", "--mart", mart, "--channel", "telegram", "--sender-id", "42"]) == 64
    assert "there is no mart" in capsys.readouterr().err
