import json

import pytest

from shared.channels.base import SAID_IN_CONTEXT, Event
from shared.db.engine.connection import transaction
from shared.queue import notices
from tests.support import NOW, make_chat, row

CONTEXT = {"token": "sealed"}
CARRIES = {
    "a direct message": (Event("message", "1", platform_message_id="m1"), {}, {}),
    "a message in a group": (Event("message", "1", is_group=True, platform_message_id="m1"), {}, {"reply_to": "m1"}),
    "with a way back": (Event("command", "1", context=CONTEXT), {}, {"context": CONTEXT, "asked_at": NOW}),
    "a press": (Event("callback", "1", is_group=True, platform_message_id="m1", context=CONTEXT), {}, {}),
    "with more": (Event("message", "1"), {"buttons": [["Yes", "x.0"]]}, {"buttons": [["Yes", "x.0"]]}),
}


@pytest.mark.parametrize(("event", "content", "carried"), CARRIES.values(), ids=CARRIES)
def test_a_notice_carries_what_its_delivery_needs(conn, event, content, carried):
    chat = make_chat(conn)
    with transaction(conn):
        notices.say(conn, "telegram", event, "No.", chat_id=chat, now_ms=NOW, **content)
    assert json.loads(row(conn, "responses")["content"]) == carried


def test_a_notice_goes_where_the_event_came_from_and_keeps_nothing_of_what_it_said(conn):
    chat = make_chat(conn)
    event = Event("message", "1", "100", "7", sender="Ana", sender_id="5", text="a secret")
    with transaction(conn):
        made = notices.say(conn, "telegram", event, "No.", chat_id=chat, now_ms=NOW)
    found = row(conn, "responses", made)
    names = ("channel", "chat_id", "platform_id", "thread_id", "sender", "sender_id", "message", "original_message")
    assert [found[name] for name in names] == ["telegram", chat, "100", "7", "Ana", "5", "No.", ""]
    assert (found["status"], found["in_reply_to"]) == ("pending", None)
    assert found["message_id"].startswith("proactive_")


@pytest.mark.parametrize("name", sorted(SAID_IN_CONTEXT))
def test_a_notice_keeps_nothing_that_a_person_wrote_beside_the_text(conn, name):
    """The options of a command belong to a message that may be held, or refused."""
    chat = make_chat(conn)
    event = Event("command", "1", context={**CONTEXT, name: {"text": "a secret"}})
    with transaction(conn):
        notices.say(conn, "discord", event, "No.", chat_id=chat, now_ms=NOW)
    assert json.loads(row(conn, "responses")["content"]) == {"context": CONTEXT, "asked_at": NOW}
