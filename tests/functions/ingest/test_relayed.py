"""What the relay of Discord's Gateway posts: typed messages, their edits and deletions, reactions, threads."""

import json
import time

import pytest

from shared.channels import standard_webhooks
from shared.channels.base import Registration
from shared.conversation.access import channel_watch
from shared.db.engine.connection import rows, transaction
from shared.db.platforms import channel_watches
from tests.functions.ingest.kit import EVENTS, ask, post
from tests.support import NOW, column, dump

SECRET = "whsec_eGW35rnSQddE0zDuw7Og/k+dNq912WKR"
BOT = "1290000000000000001"


@pytest.fixture(autouse=True)
def relay(environment, monkeypatch):
    monkeypatch.setenv("DISCORD_RELAY_SECRET", SECRET)
    monkeypatch.setenv("POSTROOM_NEW_CHATS", "wire")
    monkeypatch.setenv("DISCORD_APPLICATION_ID", BOT)


def frame_of(name, **changes):
    frame = json.loads((EVENTS / "discord" / name).read_bytes())
    frame["d"] |= changes
    return frame


def relayed(frame, webhook_id="gateway_1"):
    body = json.dumps(frame).encode()
    headers = standard_webhooks.sign(SECRET, webhook_id, body, now_ms=int(time.time() * 1000))
    return {"url": "/webhooks/discord", "content": body, "headers": headers}


def sent(serving, *calls):
    answers = [answer for call in calls for answer in post(serving, call)]
    assert {(answer.status_code, answer.content) for answer in answers} == {(200, b"")}


def direct(text="hi bot", **changes):
    return frame_of("081_relay_dm.json", content=text, **changes)


def changed(name, original, **changes):
    """A frame about the message of another frame."""
    return {"op": 0, "t": name, "s": 99, "d": {**original["d"], **changes}}


def test_a_typed_message_is_one_row_however_often_it_comes(serving, conn):
    sent(serving, relayed(direct()), relayed(direct(), "gateway_2"))
    assert rows(conn, "SELECT message, sender, content ->> '$.own_answer' FROM messages") == [("hi bot", "Ana", None)]


def test_what_the_relay_sends_says_nothing_of_the_address_for_interactions(serving, conn):
    """Else the address of another program that took the app would be learned as ours."""
    with transaction(conn):
        channel_watch.note(conn, "discord", Registration(False, "https://other.example/x"), now_ms=NOW)
    (deaf,) = channel_watches.deaf(conn)
    sent(serving, relayed(direct()))
    assert channel_watches.deaf(conn) == [deaf]
    assert deaf.heard_at is None
    post(serving, ask())
    assert channel_watches.deaf(conn) == []


def test_an_edit_of_a_waiting_message_replaces_it_and_a_deletion_cancels_it(serving, conn):
    typed = direct("helo")
    edit = changed("MESSAGE_UPDATE", typed, content="hello", edited_timestamp="2026-11-20T10:01:00.000000+00:00")
    sent(serving, relayed(typed), relayed(edit, "gateway_2"))
    assert rows(conn, "SELECT message, status FROM messages") == [("hello", "pending")]
    gone = {"id": typed["d"]["id"], "channel_id": typed["d"]["channel_id"]}
    sent(serving, relayed({"op": 0, "t": "MESSAGE_DELETE", "s": 100, "d": gone}, "gateway_3"))
    assert column(conn, "SELECT status FROM messages") == ["cancelled"]


def test_a_link_preview_changes_nothing(serving, conn):
    typed = direct("see https://example.org")
    sent(serving, relayed(typed), relayed(changed("MESSAGE_UPDATE", typed, embeds=[{"url": "x"}]), "gateway_2"))
    assert rows(conn, "SELECT message, status FROM messages") == [("see https://example.org", "pending")]


def test_a_mention_in_a_thread_is_of_the_channel_and_its_thread(serving, conn):
    sent(serving, relayed(frame_of("223_relay_private_thread.json")))
    found = rows(conn, "SELECT platform_id, thread_id, message FROM messages")
    assert found == [("1290000000000000200", "1290000000000000310", f"<@{BOT}> and in private?")]


def test_files_come_with_the_message(serving, conn):
    sent(serving, relayed(frame_of("218_relay_two_files.json")))
    (files,) = column(conn, "SELECT files FROM messages")
    assert [(each["kind"], each["name"]) for each in json.loads(files)] == [
        ("file", "log.txt"),
        ("image", "screen.png"),
    ]


@pytest.mark.parametrize(
    "frame",
    [
        frame_of("087_relay_from_bot.json"),
        frame_of("224_relay_thread_create.json"),
        frame_of("102_relay_malformed.json"),
        frame_of("092_relay_reaction_add.json"),
        frame_of("220_relay_delete.json"),
    ],
    ids=lambda frame: frame["t"],
)
def test_what_asks_no_agent_is_taken_all_the_same(serving, conn, frame):
    """Anything but a 2xx would hold back all that people type."""
    sent(serving, relayed(frame))
    assert column(conn, "SELECT id FROM messages WHERE trigger = 1") == []


def test_a_frame_with_another_signature_is_refused_and_stores_nothing(serving, conn):
    before = dump(conn)
    call = relayed(direct())
    (answer,) = post(serving, {**call, "headers": {**call["headers"], "webhook-id": "other"}})
    assert answer.status_code == 401
    assert dump(conn) == before
