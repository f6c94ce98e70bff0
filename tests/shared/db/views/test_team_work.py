"""What a leader sees of its team comes from the few open messages of each agent, however many there were."""

import pytest

from shared.db.queue import mailbox
from shared.db.spending import usage
from shared.db.views import team_work
from tests.support import NOW, plan

KEY = {"agent": "bob", "asker": "assistant", "now": NOW, "limit": 5, "origin": "m"}
QUERIES = {
    "what runs": (team_work.RUNNING, ("agent", "asker"), "messages_open"),
    "what waits": (team_work.WAITING, ("agent", "now"), "messages_open"),
    "what was handed over": (team_work.OF_ASKER, ("agent", "asker", "limit"), "messages_open"),
    "the files that wait": (mailbox.WAITING_BYTES, ("agent",), "messages_open"),
    "the files of rooms that wait": (mailbox.WAITING_BYTES, ("agent",), "messages_context (session_id=?"),
    "the copies that wait": (mailbox.WAITING_FILES, (), "messages_open"),
    "the cost of a chain": (usage.SPENT_ON, ("origin",), "usage_of_chain"),
}


@pytest.mark.parametrize(("sql", "names", "index"), QUERIES.values(), ids=QUERIES)
def test_an_index_answers_it(conn, sql, names, index):
    steps = plan(conn, sql, **{name: KEY[name] for name in names})
    assert any(index in step for step in steps), steps
    assert not any(step in ("SCAN m", "SCAN messages") for step in steps), steps
