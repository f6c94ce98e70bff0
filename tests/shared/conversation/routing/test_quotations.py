"""An agent reads a quotation or a forwarded message only where its author might have told it the same."""

import json
from dataclasses import asdict, replace

import pytest

from shared.channels.base import WebhookRequest
from shared.channels.telegram.channel import TelegramChannel, TelegramSettings
from shared.conversation.access import requests
from shared.conversation.inbound import decisions, events
from shared.conversation.routing.quotations import FORWARD_WITHHELD, QUOTATION_WITHHELD
from shared.db.engine.connection import rows, transaction
from tests.shared.conversation.routing.router.kit import (
    ACCESS,
    ASK,
    EVERY_ROLE,
    NOBODY,
    OPEN,
    SECRET,
    YES,
    become,
    event,
    make_chat,
    store,
    wire,
)
from tests.support import NOW, column, dump, row

OTHER = "6"  # the author of what the member 5 passes on


def quoting(author=OTHER, **more):
    quoted = {"message_id": "1", "text": SECRET, "sender_id": author, "is_self": False, **more}
    return event("look at that", reply_to=quoted, is_group=True)


def forwarding(author=OTHER, *, is_self=False, text=SECRET):
    photo = {"kind": "photo", "file_id": SECRET}
    by = {"sender_id": author, "is_self": is_self}
    return event(text, attachments=(photo,), forwarded=by, is_group=True)


def is_told(conn):
    """Whether the text stands anywhere in the database."""
    return SECRET in str(dump(conn))


def quotation(conn, agent="assistant"):
    (found,) = column(conn, "SELECT content ->> '$.reply_to.text' FROM messages WHERE agent = :agent", agent=agent)
    return found


CASES = [
    (policy, scope, role, outcome == YES)
    for (policy, scope), outcomes in ACCESS.items()
    for role, outcome in zip(EVERY_ROLE, outcomes, strict=True)
]


@pytest.mark.parametrize("what", [quoting(), forwarding()], ids=["quotation", "forward"])
@pytest.mark.parametrize(("policy", "scope", "role", "is_heard"), CASES)
def test_what_an_author_may_not_tell_an_agent_no_member_tells_it_by_passing_it_on(
    conn, what, policy, scope, role, is_heard
):
    wire(conn, make_chat(conn, policy=policy, is_group=True), sender_scope=scope)
    become(conn, "member")
    if role != NOBODY:
        become(conn, role, OTHER)
    assert store(conn, what).stored == 1
    assert is_told(conn) is is_heard


@pytest.mark.parametrize("policy", ["strict", "request_approval"])
@pytest.mark.parametrize("what", [quoting(), forwarding()], ids=["quotation", "forward"])
def test_a_member_of_another_agent_is_heard_by_that_agent_alone(conn, policy, what):
    chat = make_chat(conn, policy=policy, is_group=True)
    for agent in ("assistant", "second"):
        wire(conn, chat, agent)
        become(conn, "member", agent=agent)
    become(conn, "member", OTHER, agent="second")
    assert store(conn, what).stored == 2
    for agent, is_heard in (("assistant", False), ("second", True)):
        found = rows(conn, "SELECT message, content, files FROM messages WHERE agent = :agent", {"agent": agent})
        assert (SECRET in str(found)) is is_heard


def test_a_marker_stands_in_the_place_of_what_is_withheld(conn):
    wire(conn, make_chat(conn, policy="strict", is_group=True))
    become(conn, "member")
    store(conn, quoting())
    assert json.loads(row(conn, "messages")["content"])["reply_to"] == {
        "message_id": "1",
        "text": QUOTATION_WITHHELD,
        "sender_id": OTHER,
        "is_self": False,
    }
    store(conn, replace(forwarding(), event_key="2"))
    found = row(conn, "messages")
    assert (found["message"], found["files"]) == (FORWARD_WITHHELD, "[]")


AUTHORS = {
    "the bot": (quoting("700", is_self=True), True),
    "the sender": (quoting("5"), True),
    "nobody that the platform names": (quoting(None), False),
    "a stranger whose message a member had forwarded": (quoting("7", origin_id=OTHER), False),
    "a member whose message a stranger had forwarded": (quoting(OTHER, origin_id="7"), False),
    "a hidden person whose message a member had forwarded": (quoting("7", origin_id=None), False),
    "a stranger whose message the bot had forwarded": (quoting("700", is_self=True, origin_id=OTHER), False),
    "the bot, in another chat": (quoting("700", is_self=True, external=True), False),
    "a member, in another chat": (quoting("7", external=True), True),
    "the bot, forwarded": (forwarding("700", is_self=True), True),
    "the sender, forwarded": (forwarding("5"), True),
    "a member, forwarded": (forwarding("7"), True),
    "a hidden person, forwarded": (forwarding(None), False),
}


@pytest.mark.parametrize(("what", "is_heard"), AUTHORS.values(), ids=AUTHORS)
def test_each_author_of_a_text_must_be_heard(conn, what, is_heard):
    wire(conn, make_chat(conn, policy="request_approval", is_group=True))
    become(conn, "member")
    become(conn, "member", "7")
    store(conn, what)
    assert is_told(conn) is is_heard


def test_a_hidden_author_is_heard_where_all_strangers_are(conn):
    wire(conn, make_chat(conn, policy="public", is_group=True))
    store(conn, quoting(None))
    assert quotation(conn) == SECRET


def test_context_that_no_agent_answers_keeps_no_withheld_text(conn):
    wire(conn, make_chat(conn, policy="strict", is_group=True), ignored_message_policy="accumulate")
    become(conn, "member")
    store(conn, replace(quoting(), is_mention=False))
    assert quotation(conn) == QUOTATION_WITHHELD
    assert not is_told(conn)


def test_a_withheld_command_is_no_command(conn):
    wire(conn, make_chat(conn, policy="strict", is_group=True))
    become(conn, "owner")
    store(conn, forwarding(text="/clear"))
    assert column(conn, "SELECT message FROM messages") == [FORWARD_WITHHELD]


# -- held for an approval ----------------------------------------------------------------------------------------------


def test_a_strangers_message_is_held_without_what_it_quotes_of_another_stranger(conn):
    wire(conn, make_chat(conn, policy="request_approval", is_group=True))
    become(conn, "owner", "9")
    assert store(conn, quoting()).held == 1
    assert not is_told(conn)
    (approval,) = column(conn, "SELECT approval_id FROM approvals")
    with transaction(conn):
        decisions.decide(conn, approval, 0, decisions.OPERATOR, policy=OPEN, now_ms=NOW)
    assert quotation(conn) == QUOTATION_WITHHELD


def test_a_message_of_a_new_chat_is_held_without_what_it_quotes_of_a_stranger(conn):
    become(conn, "owner", "9")
    assert store(conn, quoting(), ASK).held == 1
    assert not is_told(conn)


def test_what_a_new_chats_message_quotes_is_read_by_the_chosen_agent_only_if_it_hears_the_author(conn):
    become(conn, "owner", "9")
    wire(conn, make_chat(conn, "200"), "second")
    become(conn, "member", OTHER, agent="second")
    assert store(conn, quoting(), ASK).held == 1
    (approval,) = column(conn, "SELECT approval_id FROM approvals")
    with transaction(conn):
        decisions.decide(conn, approval, 0, decisions.OPERATOR, policy=ASK, now_ms=NOW)
    assert column(conn, "SELECT agent FROM messages") == ["assistant"]
    assert quotation(conn) == QUOTATION_WITHHELD
    assert not is_told(conn)


def test_a_second_stranger_of_a_new_chat_is_held_again_without_the_quotation(conn):
    become(conn, "owner", "9")
    wire(conn, make_chat(conn, "200"), "second")
    become(conn, "member", OTHER, agent="second")
    store(conn, event("hello", is_group=True), ASK)
    assert store(conn, replace(quoting(), event_key="2", sender_id="8"), ASK).held == 1
    (approval,) = column(conn, "SELECT approval_id FROM approvals")
    with transaction(conn):
        decisions.decide(conn, approval, 0, decisions.OPERATOR, policy=ASK, now_ms=NOW)
    assert column(conn, "SELECT event ->> '$.reply_to.text' FROM held") == [QUOTATION_WITHHELD]
    assert not is_told(conn)


def test_an_event_that_an_earlier_release_held_is_read_with_its_quotation_in_the_place_of_today(conn):
    held = asdict(quoting())
    del held["forwarded"]
    held["context"] = {"quote": "a part", "forwarded_from": "Ben"}
    found = requests.event_of(json.dumps(held))
    assert found == replace(
        quoting("6", text="a part"),
        context={"forwarded_from": "Ben"},
        forwarded={"sender_id": None, "is_self": False},
    )


# -- cards -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def card(conn):
    """The card about a stranger's held message, as the owner 9 has it in the direct chat; the platform's id is c1."""
    become(conn, "owner", "9")
    wire(conn, make_chat(conn, policy="request_approval", is_group=True))
    wire(conn, make_chat(conn, "9", policy="request_approval"))
    assert store(conn, event(is_group=True)).held == 1
    rows(conn, "UPDATE responses SET parts = '[\"c1\"]' WHERE platform_id = '9'")
    (text,) = column(conn, "SELECT message FROM responses WHERE platform_id = '9'")
    assert SECRET in text
    return text


def of_owner(**fields):
    return event(event_key="2", platform_id="9", sender_id="9", **fields)


@pytest.mark.parametrize(("message", "is_card"), [("c1", True), ("c2", False)])
def test_an_approver_who_answers_a_card_does_not_tell_the_agent_what_it_quotes(conn, card, message, is_card):
    quoted = {"message_id": message, "text": card, "sender_id": "700", "is_self": True}
    store(conn, of_owner(text="who is that?", reply_to=quoted))
    assert quotation(conn) == (QUOTATION_WITHHELD if is_card else card)


@pytest.mark.parametrize("is_card", [True, False])
def test_an_approver_who_forwards_a_card_does_not_tell_the_agent_what_it_quotes(conn, card, is_card):
    text = card.replace("\\", "") if is_card else "an answer about approval_aaaaaaaa"
    store(conn, of_owner(text=text, forwarded={"sender_id": "700", "is_self": True}))
    assert column(conn, "SELECT message FROM messages") == [FORWARD_WITHHELD if is_card else text]


# -- from Telegram -----------------------------------------------------------------------------------------------------

STRANGER = {"id": 6, "is_bot": False, "first_name": "Ben"}
GROUP = {"id": -100, "type": "supergroup", "title": "Ops"}
ORIGIN = {"type": "user", "sender_user": STRANGER, "date": 1}
TELEGRAM = {
    "a reply": {"text": "hm", "reply_to_message": {"message_id": 1, "chat": GROUP, "from": STRANGER, "text": SECRET}},
    "a reply to a photo": {
        "text": "hm",
        "reply_to_message": {"message_id": 1, "chat": GROUP, "from": STRANGER, "caption": SECRET},
    },
    "a reply to a selected part": {
        "text": "hm",
        "reply_to_message": {"message_id": 1, "chat": GROUP, "from": STRANGER, "text": f"x {SECRET} y"},
        "quote": {"text": SECRET, "position": 2},
    },
    "a reply to a message of another chat": {
        "text": "hm",
        "external_reply": {"origin": ORIGIN, "chat": GROUP, "message_id": 1},
        "quote": {"text": SECRET, "position": 0},
    },
    "a quotation of a message that Telegram does not name": {"text": "hm", "quote": {"text": SECRET, "position": 0}},
    "a reply to a forwarded message": {
        "text": "hm",
        "reply_to_message": {
            "message_id": 1,
            "chat": GROUP,
            "from": {"id": 5, "first_name": "Ana"},
            "forward_origin": ORIGIN,
            "text": SECRET,
        },
    },
    "a forwarded text": {"text": SECRET, "forward_origin": ORIGIN},
    "a forwarded file": {
        "caption": SECRET,
        "document": {"file_id": "f", "file_name": SECRET},
        "forward_origin": ORIGIN,
    },
    "a forwarded text of a hidden person": {
        "text": SECRET,
        "forward_origin": {"type": "hidden_user", "sender_user_name": "Ben", "date": 1},
    },
    "a forwarded poll": {
        "poll": {"question": SECRET, "options": [{"text": SECRET}]},
        "forward_origin": {"type": "channel", "chat": {"id": -7, "type": "channel"}, "message_id": 1, "date": 1},
    },
}


@pytest.fixture
def telegram():
    settings = TelegramSettings(bot_token="700:x", webhook_secret="s", bot_username="my_bot")
    return TelegramChannel(settings)


def parse(telegram, message):
    base = {"message_id": 2, "chat": GROUP, "from": {"id": 5, "first_name": "Ana"}, "date": 1}
    body = json.dumps({"update_id": 1, "message": {**base, **message}}).encode()
    headers = {"x-telegram-bot-api-secret-token": "s"}
    (found,) = telegram.receive(WebhookRequest("POST", {}, headers, body), now_ms=NOW).events
    return found


@pytest.mark.parametrize("new_chats", ["wired", "ask"])
@pytest.mark.parametrize("role", ["member", NOBODY])
@pytest.mark.parametrize("message", TELEGRAM.values(), ids=TELEGRAM)
def test_no_update_of_telegram_stores_a_strangers_text_by_passing_it_on(conn, telegram, message, role, new_chats):
    become(conn, "owner", "9")
    if new_chats == "wired":
        wire(conn, make_chat(conn, "-100", policy="request_approval", is_group=True))
    if role != NOBODY:
        become(conn, role)
    what = replace(parse(telegram, message), is_mention=True)
    with transaction(conn):
        routed = events.handle(conn, "telegram", what, ASK, now_ms=NOW)
    assert routed.stored + routed.held == 1
    assert not is_told(conn)
