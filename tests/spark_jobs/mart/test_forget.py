import json

import pytest
from pyarrow import parquet as pq

from spark_jobs.__main__ import main
from spark_jobs.mart.places import present
from spark_jobs.mart.quotations import without_quotations
from tests.spark_jobs.mart.publishing import KEY

NOON = 1_760_011_200_000  # 2025-10-09 12:00 UTC
ANA, ANA_DM, BEN = "80000000000000001", "1290000000000000400", "80000000000000002"
GROUP = "1290000000000000200"
WORDS = "ana's secret plan"
MASKED = ((), ("--hash-people",))


def chat(primary, number, place, name, *, is_group=False, channel="discord"):
    primary.execute(
        "INSERT INTO chats (id, channel, platform_id, name, is_group, created_at, updated_at)"
        " VALUES (?, ?, ?, ?, ?, 1, 1)",
        [(number, channel, place, name, is_group)],
    )


def message(primary, name, place, sender_id, text, content=None, **columns):
    facts = {
        **{"message_id": name, "id_prefix": name, "channel": "discord", "platform_id": place, "sender_id": sender_id},
        **{"sender": {ANA: "Ana Lovelace", BEN: "Ben"}.get(sender_id, "a"), "message": text, "agent": "a"},
        **{"content": json.dumps(content or {}), "session_id": 1, "created_at": NOON, "updated_at": NOON},
        **columns,
    }
    primary.execute(f"INSERT INTO messages ({', '.join(facts)}) VALUES ({', '.join('?' * len(facts))})",
                    [tuple(facts.values())])  # fmt: skip


def response(primary, name, place, text, **columns):
    facts = {
        **{"message_id": name, "channel": "discord", "platform_id": place, "sender": "", "message": text},
        **{"original_message": "", "agent": "a", "created_at": NOON},
        **columns,
    }
    primary.execute(f"INSERT INTO responses ({', '.join(facts)}) VALUES ({', '.join('?' * len(facts))})",
                    [tuple(facts.values())])  # fmt: skip


@pytest.fixture
def conversation(primary):
    """Ana writes in a group and in her direct chat, whose id is another one; Ben quotes her and the answer to her."""
    chat(primary, 1, GROUP, "all hands", is_group=True)
    chat(primary, 2, ANA_DM, "Ana Lovelace")
    primary.execute("INSERT INTO users (id, channel, sender_id, name, created_at, updated_at) VALUES (5, 'discord',"
                    f" '{ANA}', 'Ana Lovelace', 1, 1)")  # fmt: skip
    message(primary, "discord_1", GROUP, ANA, WORDS, chat_id=1, platform_message_id="9001")
    message(primary, "discord_2", ANA_DM, ANA, WORDS, chat_id=2)
    response(primary, "discord_1", GROUP, f"about {WORDS}", chat_id=1, in_reply_to=1, platform_message_id="9002")
    response(primary, "proactive_1", ANA_DM, f"remember {WORDS}", chat_id=2)
    response(primary, "proactive_2", GROUP, f"more on {WORDS}", chat_id=1, in_reply_to=1)
    quote = {"text": WORDS, "message_id": "9001", "sender_id": ANA, "is_self": False}
    message(primary, "discord_3", GROUP, BEN, "good idea", {"reply_to": quote, "hops": 0}, chat_id=1)
    answer = {"text": f"about {WORDS}", "message_id": "9002", "sender_id": "1290", "is_self": True}
    message(primary, "discord_4", GROUP, BEN, "and then?", {"reply_to": answer}, chat_id=1)
    handed = {"hops": 1, "reply_to": {"text": WORDS}}
    message(primary, "agent_5", "a", None, "done", handed, channel="agent", reply_to=1, from_agent="b")
    return primary


def forget(place, capsys, sender_id=ANA):
    capsys.readouterr()
    assert main(["forget", "--mart", place, "--channel", "discord", "--sender-id", sender_id]) == 0
    return capsys.readouterr().out


def everything(place):
    manifest, files, base = present(place)
    return {
        name: [
            row
            for day in table.days.values()
            for file in day.files
            for row in pq.ParquetFile(files.open_input_file(f"{base}/{file}")).read().to_pylist()
        ]
        for name, table in manifest.tables.items()
    }


def assert_forgotten(place):
    found = everything(place)
    for word in (ANA, ANA_DM, WORDS, "Lovelace"):
        assert word not in str(found), word
    assert [row["message_id"] for row in found["messages"]] == ["discord_3", "discord_4", "agent_5"]
    assert [json.loads(row["content"]) for row in found["messages"]] == [{"hops": 0}, {}, {"hops": 1}]
    assert found["responses"] == []
    assert [row["name"] for row in found["chats"]] == ["all hands"]


@pytest.mark.parametrize("options", MASKED)
def test_no_reply_no_answer_and_no_direct_chat_keeps_the_person(
    conversation, run, anywhere, options, monkeypatch, capsys
):
    monkeypatch.setenv("POSTROOM_MART_KEY", KEY)
    assert run(anywhere, *options) == 0
    assert "no column of any file holds an id or a name" in forget(anywhere, capsys)
    assert_forgotten(anywhere)
    message(conversation, "discord_6", ANA_DM, ANA, WORDS, chat_id=2)
    conversation.execute("UPDATE messages SET updated_at = updated_at + 1")
    assert run(anywhere, *options) == 0
    assert_forgotten(anywhere)


def test_a_direct_chat_whose_messages_were_pruned_is_known_by_its_user(conversation, run, anywhere, capsys):
    conversation.execute("DELETE FROM messages WHERE chat_id = 2")
    conversation.execute("INSERT INTO user_dms (user_id, chat_id, resolved_at) VALUES (5, 2, 1)")
    assert run(anywhere) == 0
    forget(anywhere, capsys)
    assert_forgotten(anywhere)


def test_a_chat_that_others_write_in_is_nobodys_own(primary, run, anywhere, capsys):
    chat(primary, 3, "shared", "desk")
    message(primary, "m_1", "shared", ANA, WORDS, chat_id=3)
    message(primary, "m_2", "shared", BEN, "hello", chat_id=3)
    assert run(anywhere) == 0
    forget(anywhere, capsys)
    assert [row["message_id"] for row in everything(anywhere)["messages"]] == ["m_2"]
    assert [row["name"] for row in everything(anywhere)["chats"]] == ["desk"]


def test_forget_says_which_columns_still_name_the_person(conversation, run, anywhere, capsys):
    message(conversation, "m_7", GROUP, BEN, f"ask <@{ANA}>, or Ana Lovelace", chat_id=1)
    message(conversation, "m_8", GROUP, BEN, f"1{ANA} is another number", chat_id=1)
    assert run(anywhere) == 0
    said = forget(anywhere, capsys)
    assert "these columns still hold an id or a name" in said
    assert said.splitlines()[-1] == "  messages.message: 1 rows"


def test_a_quotation_goes_with_its_object_and_nothing_else_does():
    def clean(facts):
        return json.loads(without_quotations(json.dumps(facts), lambda value: value == "42", lambda _: False))

    assert clean({"reply_to": {"text": "t", "origin_id": "42"}, "hops": 0}) == {"hops": 0}
    assert clean({"context": {"forwarded_from": {"id": 42, "name": "Ana", "user": 42}, "n": 1}}) == {
        "context": {"n": 1}
    }
    assert clean({"list": [{"by": 42}, "42", "43"], "sender_id": 42}) == {"list": ["43"]}
    assert clean({"message_id": "42", "is_self": True}) == {"message_id": "42", "is_self": True}


@pytest.mark.parametrize("text", [None, "", "{}", "[42", "hello", '{"a": 1}'])
def test_what_names_nobody_stays_as_it_is(text):
    assert without_quotations(text, lambda value: value == "42", lambda _: False) is text
