import pytest

from shared.db.access import questions
from shared.db.engine.connection import transaction
from shared.queue import answers
from tests.support import NOW, make_session, put, take


def ask(conn, question="Which?", options=("Red", "Blue"), *, chat="100", now_ms=NOW, life_ms=60_000):
    chat_id, session = make_session(conn, chat=chat)
    with transaction(conn):
        asked = questions.ask(
            conn, session_id=session, question=question, options=options, expires_at=now_ms + life_ms, now_ms=now_ms
        )
        questions.show(conn, asked, chat_id=chat_id, thread_id=None, private_to=None, card=1)
    return asked


def found(conn, claim):
    return {
        next(each.message for each in claim.batch if each.id == row): question.question_id
        for row, question in answers.find(conn, claim.session_id, claim.batch).items()
    }


@pytest.mark.parametrize(
    ("text", "answer"),
    [("Red", "Red"), (" bLUE ", "Blue"), ("1", "Red"), ("2.", "Blue"), ("3", None), ("0", None), ("Green", None)],
)
def test_a_choice_is_made_by_its_text_or_number(conn, text, answer):
    assert answers.chosen(questions.get(conn, ask(conn)), text) == answer


def test_any_text_answers_a_question_without_choices(conn):
    question = questions.get(conn, ask(conn, options=()))
    assert answers.chosen(question, "as you\n like") == "as you like"
    assert answers.chosen(question, " ") is None


def test_the_message_that_answers_is_named_and_a_retry_of_its_turn_says_the_same(conn):
    asked = ask(conn)
    put(conn, "blue", now_ms=NOW + 5)
    claim = take(conn, now_ms=NOW + 9)
    assert found(conn, claim) == {"blue": asked}
    with transaction(conn):
        answers.keep(conn, answers.find(conn, claim.session_id, claim.batch), claim.batch, now_ms=NOW + 9)
    stored = questions.get(conn, asked)
    assert (stored.status, stored.answer, stored.answered_by) == ("answered", "Blue", "Ana")
    assert found(conn, claim) == {"blue": asked}


def test_a_text_that_is_no_answer_leaves_the_question_open(conn):
    asked = ask(conn)
    put(conn, "hold on", now_ms=NOW + 5)
    assert found(conn, take(conn, now_ms=NOW + 9)) == {}
    assert questions.get(conn, asked).status == "open"


def test_two_questions_are_answered_by_two_messages_the_newest_first(conn):
    ask(conn, "First?", options=())
    second = ask(conn, "Second?", options=(), now_ms=NOW + 1)
    put(conn, "one", now_ms=NOW + 5)
    put(conn, "two", now_ms=NOW + 6)
    named = found(conn, take(conn, now_ms=NOW + 9))
    assert named["one"] == second
    assert named.keys() == {"one", "two"}


@pytest.mark.parametrize(
    "message",
    [
        {"now_ms": NOW - 1},  # before the question
        {"now_ms": NOW + 60_000},  # too late
        {"kind": "task"},
        {"kind": "system"},
        {"from_agent": "bob"},
    ],
)
def test_what_no_person_said_in_time_answers_nothing(conn, message):
    ask(conn, options=())
    put(conn, "yes", **{"now_ms": NOW + 5, **message})
    assert found(conn, take(conn, now_ms=NOW + 90_000)) == {}


def test_a_question_of_another_conversation_is_not_answered_here(conn):
    ask(conn, chat="300", options=())
    put(conn, "yes", now_ms=NOW + 5)
    assert found(conn, take(conn, now_ms=NOW + 9)) == {}
