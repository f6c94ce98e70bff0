import json

import pytest

from shared.db.access import questions
from shared.db.engine.connection import rows
from tests.shared.turns.tools.calls import let_send, running
from tests.support import NOW, column, dump, make_chat, row, take


def asked_in(answer):
    """The id of the question."""
    return answer.split(" as ")[1].split(".")[0]


def test_a_question_is_a_row_with_an_expiry_and_a_message_with_buttons(conn, db):
    with running(conn, db, thread="7") as turn:
        answer = turn.say("ask_user_question", question="Which colour?", options=["Red", "Blue"], expires_in_minutes=5)
    question = questions.get(conn, asked_in(answer))
    assert (question.status, question.options, question.expires_at) == ("open", ("Red", "Blue"), NOW + 300_000)
    assert (question.chat_id, question.thread_id, question.card) == (turn.claim.batch[0].chat_id, "7", 1)
    shown = row(conn, "responses")
    assert shown["message"] == "Which colour?"
    assert json.loads(shown["content"])["buttons"] == [
        ["Red", f"{question.question_id}.0"],
        ["Blue", f"{question.question_id}.1"],
    ]
    assert "The answer comes as a message of its own" in answer


def test_where_there_are_no_buttons_the_choices_are_numbered(conn, db):
    with running(conn, db) as turn:
        rows(conn, "UPDATE messages SET channel = 'web'")
        rows(conn, "UPDATE messages SET status = 'pending', claimed_by = NULL, lease = NULL")
        turn = type(turn)(turn.process, db, take(conn, token="turn_b"))
        turn.say("ask_user_question", question="Which?", options=["Red", "Blue"], title="Colours")
    assert row(conn, "responses")["message"] == (
        "**Colours**\n\nWhich?\n\n1. Red\n2. Blue\n\nPlease answer with the number or the text."
    )
    assert "buttons" not in json.loads(row(conn, "responses")["content"])


@pytest.mark.parametrize(
    "given",
    [
        {"question": ""},
        {"question": "x" * 2001},
        {"options": ["a"] * 2},
        {"options": ["Yes", "yes "]},
        {"options": [" "]},
        {"options": list("abcdefghi")},
        {"options": ["x" * 61]},
        {"options": "yes"},
        {"expires_in_minutes": 0},
        {"expires_in_minutes": 10**9},
        {"to": "family"},
    ],
)
def test_a_question_that_nobody_could_answer_is_refused_and_not_stored(conn, db, given):
    with running(conn, db) as turn:
        before = dump(conn)
        turn.refusal("ask_user_question", **{"question": "?", **given})
        assert dump(conn) == before


def test_elsewhere_only_a_question_with_buttons_is_asked_because_only_a_press_comes_back(conn, db):
    with running(conn, db) as turn:
        name = let_send(conn, chat=make_chat(conn, "-200", is_group=True))
        assert "only a question with 'options' can be asked" in turn.refusal("ask_user_question", question="?", to=name)
        turn.say("ask_user_question", question="?", options=["Yes", "No"], to=name)
    assert column(conn, "SELECT platform_id FROM responses") == ["-200"]


def test_a_conversation_has_so_many_open_questions_and_no_more(conn, db):
    with running(conn, db) as turn:
        for number in range(10):
            turn.say("ask_user_question", question=f"{number}?")
        assert turn.refusal("ask_user_question", question="one more?").startswith("10 questions of this conversation")


def test_the_same_question_twice_in_a_turn_is_asked_once(conn, db):
    with running(conn, db) as turn:
        first = turn.say("ask_user_question", question="sure?")
        assert turn.say("ask_user_question", question="sure?") == first
    assert column(conn, "SELECT count(*) FROM questions") == [1]
