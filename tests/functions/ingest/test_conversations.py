"""Whole conversations, as Telegram sends them."""

import json

from shared.conversation.inbound import events
from shared.core.policy import AccessPolicy
from shared.core.time import clock
from shared.db.engine.connection import rows, transaction
from shared.runtime.kick import Listener
from tests.functions.ingest.kit import EVENTS, drained, post, telegram
from tests.support import column


def recorded(file, number=None, **changes):
    """A recorded update with today's date; *number*: as another update. *changes*: of its message."""
    update = json.loads((EVENTS / "telegram" / file).read_bytes())
    (kind,) = update.keys() - {"update_id"}
    update[kind] |= {"date": clock.now_ms() // 1000, **changes}
    return telegram(json.dumps(update if number is None else {"update_id": number, f"edited_{kind}": update[kind]}))


def place_of(file):
    """The chat and the sender of a recorded message."""
    message = json.loads((EVENTS / "telegram" / file).read_bytes())["message"]
    return {"chat": message["chat"], "from": message["from"]}


def joined(conn):
    with transaction(conn):
        return events.handle_due_albums(conn, AccessPolicy(new_chats="wire"), now_ms=clock.now_ms() + 1_000)


def test_a_recorded_album_its_late_piece_and_its_edits_are_one_conversation(serving, environment, conn):
    listener = Listener(environment, "dispatch")
    first, second = recorded("304_album_documents_1.json"), recorded("305_album_documents_2.json")
    post(serving, second, first, second)
    assert drained(listener)
    listener.close()
    joined(conn)
    post(serving, recorded("306_album_documents_late.json"), first)
    joined(conn)
    assert rows(conn, "SELECT message, json_array_length(files) FROM messages ORDER BY id") == [
        ("the contract\nand the annex", 2),
        ("", 1),
    ]
    edit = {"edit_date": clock.now_ms() // 1000, "caption": "and annex A"}
    post(
        serving, recorded("305_album_documents_2.json", 77, **edit), recorded("305_album_documents_2.json", 77, **edit)
    )
    post(serving, recorded("304_album_documents_1.json", 78, edit_date=edit["edit_date"]))
    assert column(conn, "SELECT message FROM messages ORDER BY id") == ["the contract\nand annex A", ""]
    assert column(conn, "SELECT type FROM events WHERE type = 'message_edited'") == ["message_edited"]
    stop = {"text": "/stop", "entities": [{"type": "bot_command", "offset": 0, "length": 5}]}
    post(serving, recorded("314_before_noop_edit.json", **stop, **place_of("304_album_documents_1.json")))
    assert column(conn, "SELECT status FROM messages") == ["cancelled", "cancelled"]
