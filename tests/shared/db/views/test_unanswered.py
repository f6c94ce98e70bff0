import pytest

from shared.db.views import unanswered
from tests.support import plan

GIVEN = {"chat": 1, "channel": "telegram", "platform_id": "100", "now": 1, "row": 1}


@pytest.mark.parametrize(
    ("sql", "index"),
    [
        (unanswered.WAITING, "messages_open"),
        (unanswered.DEAD, "messages_dead"),
        (unanswered.TO_SEND, "responses_open"),
        (unanswered.UNSENT, "responses_dead"),
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
