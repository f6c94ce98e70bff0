"""The stop button of a draft ends the turn that the draft shows, and no other."""

import pytest

from shared.channels.base import Event
from shared.conversation.inbound import events
from shared.core.policy import AccessPolicy
from shared.core.settings import Settings
from shared.db.engine.connection import rows, transaction
from shared.db.platforms import drafts as stored
from shared.queue import drafts
from tests.support import NOW, column, put, take

TURN = "turn_a"


def show(conn, claim, chat="100", channel="telegram"):
    with transaction(conn):
        return stored.add(
            conn,
            claim.token,
            agent=claim.agent,
            session_id=claim.session_id,
            channel=channel,
            platform_id=chat,
            now_ms=NOW,
        )


def press(conn, draft_id, chat="100", channel="telegram"):
    with transaction(conn):
        return drafts.stop(conn, channel, chat, draft_id, now_ms=NOW + 5)


def test_all_messages_of_the_turn_and_of_its_people_are_cancelled(conn):
    put(conn, "one")
    put(conn, "two")
    claim = take(conn, token=TURN)
    put(conn, "three")
    put(conn, "another person's", sender_id="6")
    assert press(conn, show(conn, claim)) == 3
    found = rows(conn, "SELECT message, status, claimed_by, last_error FROM messages ORDER BY id")
    assert found == [
        ("one", "cancelled", None, drafts.STOPPED),
        ("two", "cancelled", None, drafts.STOPPED),
        ("three", "cancelled", None, drafts.STOPPED),
        ("another person's", "pending", None, None),
    ]


def test_a_second_press_does_nothing(conn):
    put(conn)
    draft = show(conn, take(conn, token=TURN))
    assert (press(conn, draft), press(conn, draft)) == (1, 0)


def test_a_later_turn_of_the_session_is_not_ended(conn):
    put(conn)
    draft = show(conn, take(conn, token=TURN))
    with transaction(conn):
        rows(conn, "UPDATE messages SET status = 'completed', claimed_by = NULL, lease = NULL")
    put(conn, "next")
    assert take(conn, token="turn_b") is not None
    assert press(conn, draft) == 0
    assert column(conn, "SELECT status FROM messages") == ["completed", "processing"]


@pytest.mark.parametrize(("chat", "channel"), [("200", "telegram"), ("100", "telegram_sales")])
def test_another_chat_or_account_stops_nothing(conn, chat, channel):
    put(conn)
    draft = show(conn, take(conn, token=TURN))
    assert press(conn, draft, chat, channel) == 0
    assert column(conn, "SELECT status FROM messages") == ["processing"]


@pytest.mark.parametrize("draft", [None, "7", "x", "7" * 5000, 7.0, 0, -1, 2**40])
def test_an_unknown_or_foreign_id_stops_nothing(conn, draft):
    put(conn)
    take(conn, token=TURN)
    assert press(conn, draft) == 0
    assert column(conn, "SELECT status FROM messages") == ["processing"]


def test_the_platforms_event_stops_the_turn(conn):
    put(conn)
    draft = show(conn, take(conn, token=TURN))
    policy = AccessPolicy.of(Settings.load())
    with transaction(conn):
        event = Event("stop", "u1", platform_id="100", context={"draft_id": str(draft)})
        assert events.handle(conn, "telegram", event, policy, now_ms=NOW + 5).changed == 1
    assert column(conn, "SELECT status FROM messages") == ["cancelled"]


def test_a_turn_has_one_draft_whose_id_a_platform_takes(conn):
    put(conn)
    claim = take(conn, token=TURN)
    draft = show(conn, claim)
    assert 1 <= draft < 2**31
    assert show(conn, claim) is None


def test_old_drafts_are_pruned(conn):
    put(conn)
    show(conn, take(conn, token=TURN))
    with transaction(conn):
        assert stored.prune(conn, older_than_ms=NOW, limit=10) == 0
        assert stored.prune(conn, older_than_ms=NOW + 1, limit=10) == 1
