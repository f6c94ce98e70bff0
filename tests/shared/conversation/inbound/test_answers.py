import json

import pytest

from shared.channels.base import Event
from shared.conversation.inbound import events
from shared.db.access import questions
from shared.db.engine.connection import rows, transaction
from shared.db.queue import sessions
from shared.db.roster import chats
from shared.queue import session_reset
from tests.approval_requests import POLICY, person
from tests.support import NOW, column, make_agent, make_chat, make_session, row, wire

LATER = NOW + 1000


@pytest.fixture
def asked(conn):
    """A question of the assistant in the group -100, to its members."""
    chat_id, session = make_session(conn, chat="-100")
    with transaction(conn):
        chats.update(conn, chat_id, sender_policy="public", now_ms=NOW)
    wire(conn, chat_id)
    return ask(conn, session, chat_id)


def ask(conn, session, chat_id, **where):
    with transaction(conn):
        question = questions.ask(
            conn, session_id=session, question="Which?", options=("Red", "Blue"), expires_at=LATER + 5000, now_ms=NOW
        )
        place = {"thread_id": None, "private_to": None, **where}
        questions.show(conn, question, chat_id=chat_id, card=41, **place)
    return question


def press(conn, question, choice=1, *, sender="5", key="c1", chat="-100", now_ms=LATER, text=None):
    event = Event(
        "callback",
        key,
        platform_id=chat,
        sender="Ana",
        sender_id=sender,
        text=text or f"{question}.{choice}",
        is_group=True,
        context={"message_id": "tg9", "callback_id": "x"},
    )
    with transaction(conn):
        return events.handle(conn, "telegram", event, POLICY, now_ms=now_ms)


def test_a_press_comes_back_as_a_message_that_names_the_question(conn, asked):
    assert press(conn, asked).stored == 1
    stored = row(conn, "messages")
    names = ("kind", "channel", "platform_id", "sender", "sender_id", "message", "agent", "trigger")
    assert [stored[name] for name in names] == ["chat", "telegram", "-100", "Ana", "5", "Blue", "assistant", 1]
    assert json.loads(stored["content"]) == {"reply_to": {"text": f"Which? ({asked})"}}
    answered = questions.get(conn, asked)
    assert (answered.status, answered.answer, answered.answered_by) == ("answered", "Blue", "Ana")


def test_the_question_shows_its_answer_and_no_buttons_any_more(conn, asked):
    press(conn, asked)
    shown = row(conn, "responses")
    assert shown["message"] == "Which?\n\n**Blue** (Ana)"
    content = json.loads(shown["content"])
    assert (content["edits"], content["click"]["message_id"], "buttons" in content) == (41, "tg9", False)


def test_a_redelivered_press_does_nothing_more(conn, asked):
    press(conn, asked)
    assert press(conn, asked).duplicates == 1
    assert column(conn, "SELECT count(*) FROM messages") == [1]
    assert column(conn, "SELECT count(*) FROM responses") == [1]


def test_the_first_press_counts(conn, asked):
    press(conn, asked, 1)
    assert press(conn, asked, 0, key="c2", sender="6").dropped == "question_closed"
    assert column(conn, "SELECT message FROM messages") == ["Blue"]
    assert row(conn, "responses")["message"] == "Already answered: Blue."


def test_a_press_after_the_expiry_is_too_late(conn, asked):
    assert press(conn, asked, now_ms=LATER + 5000).dropped == "question_closed"
    assert row(conn, "responses")["message"].startswith("Too late")


def test_a_token_from_another_chat_answers_nothing(conn, asked):
    elsewhere = make_chat(conn, "666")  # where the presser may talk to the same agent
    wire(conn, elsewhere)
    with transaction(conn):
        chats.update(conn, elsewhere, sender_policy="public", now_ms=NOW)
    assert press(conn, asked, chat="666").dropped == "not_asked"
    assert questions.get(conn, asked).status == "open"


@pytest.mark.parametrize(("policy", "scope"), [("strict", "all"), ("request_approval", "all"), ("public", "known")])
def test_a_person_who_may_not_talk_to_the_agent_there_may_not_answer(conn, asked, policy, scope):
    chat = chats.find(conn, "telegram", "-100")
    with transaction(conn):
        chats.update(conn, chat.id, sender_policy=policy, now_ms=NOW)
        rows(conn, "UPDATE wirings SET sender_scope = ?", (scope,))
    assert press(conn, asked).dropped == "not_asked"
    person(conn, "1", "owner")
    assert press(conn, asked, sender="1", key="c2").stored == 1


def test_a_private_question_is_for_one_person(conn):
    chat_id = make_chat(conn, "-100", is_group=True)
    wire(conn, chat_id)
    with transaction(conn):
        chats.update(conn, chat_id, sender_policy="public", now_ms=NOW)
        session = sessions.ensure(conn, "assistant", chat_id, None, private_to="7", now_ms=NOW)
    question = ask(conn, session, chat_id, private_to="7")
    assert press(conn, question, sender="5").dropped == "not_asked"
    assert press(conn, question, sender="7", key="c2").stored == 1
    assert json.loads(row(conn, "messages")["content"])["context"] == {"receiver_user_id": "7"}


def test_where_the_agent_does_not_answer_only_people_whom_it_knows_may(conn):
    elsewhere = make_chat(conn, "-300", is_group=True)
    home, session = make_session(conn, chat="100")
    with transaction(conn):
        chats.update(conn, elsewhere, sender_policy="public", now_ms=NOW)
    question = ask(conn, session, elsewhere)
    assert press(conn, question, chat="-300").dropped == "not_asked"
    assert "does not answer in this chat" in row(conn, "responses")["message"]
    person(conn, "1", "owner")
    assert press(conn, question, sender="1", chat="-300", key="c2").stored == 1
    assert row(conn, "messages")["chat_id"] == home  # the conversation that asked gets the answer


@pytest.mark.parametrize(
    ("pressed_in", "private_to"), [("-400", None), ("-300", "7")], ids=["from another chat", "private to another"]
)
def test_only_a_person_who_was_asked_there_hears_that_the_agent_does_not_answer_there(conn, pressed_in, private_to):
    elsewhere = make_chat(conn, "-300", is_group=True)
    make_chat(conn, "-400", is_group=True)
    _, session = make_session(conn, chat="100")
    question = ask(conn, session, elsewhere, private_to=private_to)
    assert press(conn, question, chat=pressed_in).dropped == "not_asked"
    assert row(conn, "responses")["message"] == "This question is not for you."


def test_after_a_reset_the_answer_goes_to_the_session_that_goes_on(conn, asked):
    before = questions.get(conn, asked).session_id
    with transaction(conn):
        after = session_reset.reset(conn, before, now_ms=NOW)
    press(conn, asked)
    assert row(conn, "messages")["session_id"] == after


def test_an_agent_that_is_gone_gets_no_answer(conn, asked):
    make_agent(conn, "other")
    rows(conn, "UPDATE agents SET retired_at = 1 WHERE id = 'assistant'")
    assert press(conn, asked).dropped == "question_closed"


@pytest.mark.parametrize(
    "text", ["question_00000000.0", "question_x.0", "{}.9", "{}.2", "{}.-1", "{}", "{}.0.0", "{}.00"]
)
def test_a_token_that_no_button_has_is_nobodys(conn, asked, text):
    done = press(conn, asked, text=text.format(asked))
    assert done.dropped == "unsupported:callback"
    assert questions.get(conn, asked).status == "open"
