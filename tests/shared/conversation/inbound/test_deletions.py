import json

import pytest

from shared.channels.base import Event
from shared.conversation.routing.apply import Routed
from shared.db.engine.connection import transaction
from shared.db.queue import claims
from tests.shared.conversation.inbound.test_albums_of_events import due, kept, piece
from tests.shared.conversation.inbound.test_edits import about, chat, complete, sent, stored, types
from tests.shared.conversation.inbound.test_events import take
from tests.shared.conversation.routing.router.kit import become, event, make_chat, reasons, unwire, wire
from tests.support import LEASE, NOW, column
from tests.support import take as claim

__all__ = ["chat"]


def deletion(message="m1", key="d1"):
    return Event("delete", key, platform_id="100", platform_message_id=message)


def test_a_deletion_cancels_a_message_that_waits(conn, chat):
    take(conn, sent())
    assert take(conn, deletion()) == Routed(changed=1)
    assert stored(conn) == [("first", 1, "cancelled")]
    assert column(conn, "SELECT last_error FROM messages") == ["its sender deleted it"]
    assert types(conn) == ["message_cancelled"]
    assert take(conn, deletion()) == Routed(duplicates=1)


def test_a_deletion_cancels_a_message_that_waits_for_an_agent_whose_wiring_is_gone(conn, chat):
    take(conn, sent())
    unwire(conn)
    assert take(conn, deletion()) == Routed(changed=1)
    assert stored(conn) == [("first", 1, "cancelled")]


def test_a_deletion_takes_context_from_an_agent_whose_wiring_is_gone(conn):
    wire(conn, make_chat(conn, is_group=True), engage_mode="mention", ignored_message_policy="accumulate")
    take(conn, sent("secret", is_group=True, is_mention=False))
    take(conn, sent("@bot go", is_group=True, platform_message_id="m2", event_key="e2"))
    unwire(conn)
    assert take(conn, deletion()) == Routed(changed=1)
    assert stored(conn) == [("secret", 0, "cancelled"), ("@bot go", 1, "pending")]
    assert [each.message for each in claim(conn).batch] == ["@bot go"]


def test_a_turn_is_told_of_a_deletion_where_the_wiring_of_its_agent_is_gone(conn, chat):
    take(conn, sent())
    running = claim(conn)
    unwire(conn)
    assert take(conn, deletion()).stored == 1
    assert claims.next_to_tell(conn, running, now_ms=NOW) == 2


@pytest.mark.parametrize("end", [claim, complete])
def test_a_deletion_of_a_message_that_runs_or_is_answered_is_context(conn, chat, end):
    take(conn, sent())
    end(conn)
    assert take(conn, deletion()) == Routed(stored=1)
    assert stored(conn)[1] == ("(deleted this message)", 0, "pending")
    (first,) = column(conn, "SELECT message_id FROM messages WHERE trigger = 1")
    assert about(conn) == [{"message_id": first, "as": "deletes"}]
    assert column(conn, "SELECT sender FROM messages") == ["Ana", "Ana"]


def test_a_deleted_piece_takes_its_words_and_its_file_along(conn, chat):
    for number, text in ((1, "one"), (2, "two")):
        take(conn, piece(number, text))
    due(conn)
    take(conn, deletion("2"))
    assert stored(conn) == [("one", 1, "pending")]
    assert [each["file_id"] for each in json.loads(column(conn, "SELECT files FROM messages")[0])] == ["f1"]
    take(conn, deletion("1", "d2"))
    assert stored(conn) == [("one", 1, "cancelled")]


def test_a_deleted_piece_that_waits_for_the_others_is_gone(conn, chat):
    take(conn, piece(1, "one"))
    assert take(conn, deletion("1")) == Routed(changed=1)
    assert kept(conn) == []
    assert due(conn) == [Routed()]
    assert stored(conn) == []


def test_a_deletion_takes_a_message_out_of_what_is_held(conn):
    become(conn, "owner", "9")
    wire(conn, make_chat(conn, policy="request_approval"))
    take(conn, sent())
    assert take(conn, deletion()) == Routed(changed=1)
    assert column(conn, "SELECT event FROM held") == []
    (buttons,) = column(conn, "SELECT content -> '$.buttons' FROM responses WHERE platform_id = '9'")
    take(conn, event(json.loads(buttons)[0][1], kind="callback", event_key="c", platform_id="9", sender_id="9"))
    assert stored(conn) == []


def test_a_deletion_of_what_no_agent_was_given_leaves_its_reason(conn, chat):
    assert take(conn, deletion()).dropped == "message_unknown"
    assert reasons(conn) == [("message_unknown", "")]


def test_what_one_person_alone_saw_is_told_in_that_persons_session(conn):
    wire(conn, make_chat(conn, is_group=True))
    take(conn, sent(is_group=True, context={"receiver_user_id": "5"}))
    (session,) = column(conn, "SELECT session_id FROM messages")
    with transaction(conn):
        claims.claim(conn, "assistant", session, token="turn_a", now_ms=NOW, lease_ms=LEASE, limit=10)
    take(conn, deletion(), at=NOW + 1)
    assert len(set(column(conn, "SELECT session_id FROM messages"))) == 1
