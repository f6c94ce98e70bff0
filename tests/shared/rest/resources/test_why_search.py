"""Every way to find why a message was not answered, over REST."""

import pytest

from shared.conversation.inbound import events
from shared.conversation.routing import router
from shared.conversation.routing.apply import Routed
from shared.db.access import dropped
from shared.db.engine.connection import transaction
from shared.db.queue import messages
from shared.db.roster import chats
from shared.queue import turns
from shared.queue.turns import Failure, RetryPolicy
from tests.api_client import get, made
from tests.shared.conversation.routing.router.kit import OPEN, become, event, make_chat, wire
from tests.support import NOW, column, make_agent, put, take


@pytest.mark.parametrize(
    ("ref", "what", "page"), [("m1", "message", "m/"), ("m2", "dropped", "dropped"), ("held_1", "held", "approvals")]
)
def test_a_reason_names_the_page_that_shows_the_message(serving, all_three, monkeypatch, ref, what, page):
    assert all(each["page"] is None for each in search(serving, f"ref={ref}"))
    monkeypatch.setenv("POSTROOM_PUBLIC_URL", "https://post.example/")
    (found,) = [each for each in search(serving, f"ref={ref}") if each["what"] == what]
    assert found["page"] == f"https://post.example/#/{page}{found['id'] if what == 'message' else ''}"


@pytest.fixture
def all_three(conn):
    """A stored, a held and a dropped message of sender 5 in chat -100, and a dropped one of another in another."""
    become(conn, "owner", "9")
    wire(conn, make_chat(conn, "-100", policy="request_approval", is_group=True))
    make_agent(conn, "second")
    wire(conn, 1, "second")
    become(conn, "member")
    of = {"platform_id": "-100", "is_group": True}
    taken = event(event_key="k1", platform_message_id="m1", **of)
    with transaction(conn):
        assert router.route(conn, "telegram", taken, OPEN, now_ms=NOW) == Routed(stored=1, held=1, said=True)
        left = event(event_key="k2", platform_message_id="m2", is_mention=False, **of)
        assert router.route(conn, "telegram", left, OPEN, now_ms=NOW + 1).dropped == "not_addressed"
        dropped.record(
            conn,
            channel="discord",
            reason="poll",
            detail="a quiz",
            platform_id="7",
            sender_id="8",
            sender="Ben",
            event_key="k3",
            now_ms=NOW + 2,
        )
        chats.update(conn, 1, name="Ops", now_ms=NOW)
    return conn


def search(serving, query):
    return made(get(serving, f"/api/why?{query}"))


FOUND = {
    "ref=m1": ["message", "held"],
    "ref=k1": ["message", "held"],
    "ref=m2": ["dropped"],
    "ref=k2": ["dropped"],
    "ref=dropped_1": ["dropped"],
    "ref=held_1": ["held"],
    "ref=nothing": [],
    "senderId=5": ["dropped", "message", "held"],
    "senderId=5&limit=1": ["dropped"],
    "senderId=8": ["dropped"],
    "chatId=1": ["dropped", "message", "held"],
    "platformId=-100&channel=telegram": ["dropped", "message", "held"],
    "platformId=7": ["dropped"],
    "platformId=-100&channel=discord": [],
    "chatId=1&senderId=8": [],
}


@pytest.mark.parametrize(("query", "expected"), FOUND.items())
def test_a_message_is_found_by_its_ids_its_sender_and_its_chat(serving, all_three, query, expected):
    assert sorted(each["what"] for each in search(serving, query)) == sorted(expected)


def test_what_never_became_a_message_has_its_place_its_names_and_its_reason(serving, all_three):
    (approval,) = column(all_three, "SELECT approval_id FROM approvals")
    (held,) = search(serving, f"ref={approval}")
    assert (held["id"], held["state"], held["agent"], held["approval"]) == ("held_1", "held", "second", approval)
    assert held["reason"].startswith(
        "It waits for an approval, and telegram 9 (Ana) has the card: telegram 5 (Ana) wants"
    )
    place = {"channel": "telegram", "platformId": "-100", "chatName": "Ops", "senderId": "5", "sender": "Ana"}
    (left,) = search(serving, "ref=m2")
    for each in (held, left):
        assert place.items() <= each.items()
    assert held["reason"].endswith(". Approve or refuse it.")
    assert left["reason"] == (
        "It was not addressed to an agent that answers there. Mention the bot or answer one of its messages; or let "
        "the wiring take every message."
    )
    assert (left["state"], left["code"], held["code"]) == ("dropped", "not_addressed", None)
    (quiz,) = search(serving, "senderId=8")
    assert (quiz["sender"], quiz["reason"]) == ("Ben", "It is nothing that agents get (poll: a quiz).")


def test_a_message_of_the_queue_is_explained_by_its_id(serving, conn):
    row = put(conn, given_id="m_1")
    claim = take(conn)
    with transaction(conn):
        turns.fail(conn, claim, Failure("no such program"), RetryPolicy(1, 1, 1, 0.0), now_ms=NOW)
    reply = get(serving, "/api/messages/m_1/why")
    assert (reply.json()["id"], reply.json()["state"]) == ("m_1", "dead")
    assert search(serving, "ref=m_1") == [reply.json()]
    assert messages.find(conn, "m_1") == row


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/api/messages/m_0/why", 404, "no message 'm_0': it never became one (GET /api/why"),
        ("/api/why", 400, "name a message (ref), a sender (senderId) or a chat"),
        ("/api/why?channel=telegram", 400, "name a message (ref)"),
        ("/api/why?chatId=99", 404, "there is no chat 99"),
    ],
)
def test_a_search_for_nothing_says_what_to_name(serving, conn, path, status, sentence):
    reply = get(serving, path)
    assert (reply.status_code, reply.json()["error"][: len(sentence)]) == (status, sentence)


def test_a_piece_of_an_album_is_explained_while_it_waits_and_by_its_message_then(serving, conn):
    wire(conn, make_chat(conn))
    for number in (1, 2):
        piece = event(f"p{number}", event_key=f"e{number}", platform_message_id=str(number), group_key="g")
        with transaction(conn):
            events.handle(conn, "telegram", piece, OPEN, now_ms=NOW)
    (found,) = search(serving, "ref=2")
    assert (found["what"], found["state"], found["until"]) == ("gathering", "gathering", NOW + 1_000)
    assert (found["sender"], found["platformId"], found["chatName"]) == ("Ana", "100", None)
    with transaction(conn):
        events.handle_due_albums(conn, OPEN, now_ms=NOW + 1_000)
    (whole,) = column(conn, "SELECT message_id FROM messages")
    for ref in ("1", "2", "e2"):
        assert [each["id"] for each in search(serving, f"ref={ref}")] == [whole]
    assert search(serving, "ref=2&platformId=200") == []
