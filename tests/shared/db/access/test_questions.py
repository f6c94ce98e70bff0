import contextlib
import json

import pytest

from shared.core.errors import NotFound, WrongState
from shared.db.access import questions
from shared.db.engine.connection import transaction
from tests.forks import outcomes
from tests.support import NOW, column, make_session, plan, row

LATER = NOW + 60_000


def ask(conn, text="Which one?", now_ms=NOW, **more):
    _, session = make_session(conn)
    fields = {"options": ("left", "right"), "message_id": "telegram_00000001", "expires_at": LATER, **more}
    with transaction(conn):
        return questions.ask(conn, session_id=session, question=text, now_ms=now_ms, **fields)


def answer(conn, id_, text="left", now_ms=NOW + 1, by="telegram:5"):
    with transaction(conn):
        questions.answer(conn, id_, text, answered_by=by, now_ms=now_ms)


def expire(conn, now_ms, limit=9):
    with transaction(conn):
        return questions.expire(conn, limit=limit, now_ms=now_ms)


def types(conn):
    return column(conn, "SELECT type FROM events ORDER BY id")


def test_a_question_is_answered(conn):
    id_ = ask(conn)
    found = questions.get(conn, id_)
    assert id_.startswith("question_")
    assert (found.question, found.options, found.status, found.answer) == (
        "Which one?",
        ("left", "right"),
        "open",
        None,
    )
    answer(conn, id_)
    found = questions.get(conn, id_)
    assert (found.status, found.answer, found.answered_by) == ("answered", "left", "telegram:5")
    assert types(conn) == ["question_asked", "question_answered"]
    event = row(conn, "events")
    assert (event["message_id"], json.loads(event["data"])) == ("telegram_00000001", {"question": id_})


def test_a_question_has_one_answer(conn):
    id_ = ask(conn)
    answer(conn, id_, "left")
    with pytest.raises(WrongState, match=f"{id_} is answered"):
        answer(conn, id_, "right")
    assert questions.get(conn, id_).answer == "left"
    assert types(conn) == ["question_asked", "question_answered"]


def test_an_unknown_question_can_not_be_answered(conn):
    with pytest.raises(NotFound, match="no question 'question_x'"):
        answer(conn, "question_x")


def test_it_ends_at_its_instant_even_before_a_sweep(conn):
    id_ = ask(conn)
    with pytest.raises(WrongState, match=f"{id_} is expired"):
        answer(conn, id_, now_ms=LATER)
    answer(conn, id_, now_ms=LATER - 1)


def test_open_questions_expire_oldest_first_a_batch_at_a_time(conn):
    ids = [ask(conn, expires_at=LATER + step) for step in range(4)]
    answer(conn, ids[0])
    assert expire(conn, LATER - 1) == 0
    assert expire(conn, LATER + 2, limit=1) == 1
    assert expire(conn, LATER + 2) == 1
    assert [questions.get(conn, id_).status for id_ in ids] == ["answered", "expired", "expired", "open"]
    assert types(conn)[-2:] == ["question_expired"] * 2
    with pytest.raises(WrongState, match="is expired"):
        answer(conn, ids[1])


def _answer_all(connection, name, asked):
    won = []
    for id_ in asked:
        with contextlib.suppress(WrongState):
            with transaction(connection):
                questions.answer(connection, id_, name, answered_by=None, now_ms=NOW + 1)
            won.append(id_)
    return name, won


def test_of_processes_that_answer_at_once_one_wins(conn, db):
    asked = [ask(conn) for _ in range(40)]
    won = dict(outcomes(db, _answer_all, [(name, asked) for name in ("ana", "ben", "cy")]))
    assert sorted(id_ for ids in won.values() for id_ in ids) == sorted(asked)
    assert all(questions.get(conn, id_).answer == name for name, ids in won.items() for id_ in ids)
    assert types(conn).count("question_answered") == len(asked)


def test_questions_to_expire_are_found_by_an_index(conn):
    lines = plan(conn, questions.EXPIRE, now=NOW, limit=9)
    assert any("questions_open (expires_at<?)" in line for line in lines), lines
    assert not any("SCAN" in line or "TEMP" in line for line in lines), lines


def test_what_every_turn_asks_reads_only_the_questions_of_its_session(conn):
    lines = plan(conn, questions.OF_TURN, session=1, messages="[1]")
    assert not any(line.startswith("SCAN questions") for line in lines)
    assert any("questions_of_session" in line for line in lines)
    assert any("questions_answered_in" in line for line in lines)
