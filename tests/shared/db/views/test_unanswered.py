import pytest

from shared.db.engine.connection import transaction
from shared.db.roster import chats
from shared.db.views import unanswered
from tests.support import NOW, answer, make_chat, plan, put, row

GIVEN = {"chat": 1, "channel": "telegram", "platform_id": "100", "now": 1, "row": 1}


@pytest.mark.parametrize(
    ("sql", "index"),
    [
        (unanswered.WAITING, "messages_open"),
        (unanswered.DEAD, "messages_dead"),
        (unanswered.TO_SEND, "responses_open"),
        (unanswered.UNSENT, "responses_unsent"),
        (unanswered.DROPPED_ROW, "SEARCH d USING INTEGER PRIMARY KEY"),
    ],
    ids=["waiting", "dead", "to send", "unsent", "dropped"],
)
def test_the_last_message_of_a_chat_is_read_by_an_index(conn, sql, index):
    lines = plan(conn, sql, **{name: value for name, value in GIVEN.items() if f":{name}" in sql})
    assert any(index in line for line in lines), lines


def test_of_the_dropped_events_the_newest_are_looked_at(conn):
    lines = plan(conn, unanswered.DROPPED, **{name: GIVEN[name] for name in ("channel", "platform_id")})
    assert not any("TEMP B-TREE" in line for line in lines), lines


@pytest.mark.parametrize("failure", ["not_fetched", "called_off"])
def test_answers_that_need_nobody_hide_none_that_could_not_be_sent(conn, failure):
    chat = make_chat(conn)
    asked = put(conn, "a question")
    answer(conn, "an answer")
    with transaction(conn):
        conn.execute("UPDATE messages SET status = 'completed'")
        conn.execute("UPDATE responses SET status = 'dead', failure = 'error', in_reply_to = :row", {"row": asked})
        conn.executemany(
            """
            INSERT INTO responses (message_id, channel, sender, message, platform_id, created_at, status, failure)
            VALUES ('api_1', 'api', 'A', 't', '1', 1, 'dead', ?)
            """,
            [(failure,)] * 501,
        )
    found = unanswered.latest(conn, chats.get(conn, chat), now_ms=NOW)
    assert (found.id, found.why.state) == (row(conn, "messages", asked)["message_id"], "answer_dead")
