import pytest

from shared.conversation.access import undelivered
from shared.core import page_links
from shared.db.engine.connection import rows, transaction
from shared.db.queue import responses
from shared.db.roster import chats
from tests.approval_requests import person
from tests.support import LEASE, NOW, answer, make_chat

GROUP, REASON = "-100", "Telegram 400: TOPIC_CLOSED"
HOUR = 60 * 60 * 1000


@pytest.fixture
def group(conn):
    chat_id = make_chat(conn, GROUP, is_group=True)
    with transaction(conn):
        chats.rename(conn, chat_id, "Garden *club*", now_ms=NOW)


def tell(conn, *, thread="17", chat=GROUP, now_ms=NOW):
    """Tell of an answer to this topic that could not be sent."""
    id_ = answer(conn, chat=chat, thread_id=thread, agent="assistant")
    with transaction(conn):
        response = responses.claim(conn, id_, token="t", now_ms=now_ms, lease_ms=LEASE)
        return undelivered.tell(conn, response, REASON, now_ms=now_ms)


def told(conn):
    """The recipients and the texts of what was said, oldest first."""
    return rows(conn, "SELECT platform_id, message FROM responses WHERE sender = '' ORDER BY id")


def test_an_owner_is_told_which_answer_did_not_reach_which_topic_and_why(conn, group):
    person(conn, "7", "owner")
    assert tell(conn)
    ((platform_id, text),) = told(conn)
    assert platform_id == "7"
    assert text == (
        "An answer of Assistant did not reach topic 17 of the group Garden \\*club\\* \\(telegram \\-100\\). "
        "Telegram 400\\: TOPIC\\_CLOSED. To send it again, type `emulator responses retry 1`."
    )


def test_of_each_topic_is_told_once_an_hour(conn, group):
    person(conn, "7", "owner")
    assert [tell(conn), tell(conn), tell(conn, thread="18"), tell(conn, now_ms=NOW + HOUR)] == [True, False, True, True]


def test_without_somebody_to_tell_the_row_alone_has_the_reason(conn, group):
    assert not tell(conn)
    assert told(conn) == []


def test_nobody_is_told_in_the_chat_that_could_not_be_reached(conn):
    person(conn, "7", "owner")
    person(conn, "8", "admin")
    assert tell(conn, chat="8")
    assert [recipient for recipient, _ in told(conn)] == ["7"]


def test_where_the_page_has_an_address_the_news_carries_it(conn, group):
    person(conn, "7", "owner")
    page_links.serve_at("https://post.example")
    try:
        assert tell(conn)
    finally:
        page_links.serve_at("")
    ((_, text),) = told(conn)
    chat = chats.find(conn, "telegram", GROUP)
    assert text.endswith(f"\n<https://post.example/#/c/{chat.id}>")
