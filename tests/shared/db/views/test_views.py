import re
import shutil

import pytest

from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.queue import messages
from shared.db.views import access, history, responses, stream
from shared.db.views import messages as message_views
from tests.support import answer, plan, put

SQL = {
    name: value
    for module in (access, history, message_views, responses, stream)
    for name, value in vars(module).items()
    if name.isupper() and name[0] != "_" and isinstance(value, str) and "SELECT" in value
}

# By the row's own number, from the newest on, as far as the limit: nothing is read that is not shown.
FROM_THE_NEWEST = {"RECENT": "SCAN responses", "HISTORY_OF_ALL": "SCAN agent_messages"}
# Partial indexes of what is open, and small tables.
WHOLE = {
    "OPEN_BY_AGENT": "SCAN messages USING COVERING INDEX messages_open",
    "PROCESSING": "SCAN messages USING INDEX messages_open",
    "PENDING": "SCAN messages USING COVERING INDEX messages_open",
    "DEAD": "SCAN messages USING INDEX messages_dead",
}


@pytest.fixture(scope="module", params=[False, True], ids=["without statistics", "with statistics"])
def planned(request, tmp_path_factory, fresh_database):
    """A database whose planner knows nothing of the rows, or all; it is only asked for plans."""
    path = tmp_path_factory.mktemp("plans") / "p.db"
    shutil.copy(fresh_database, path)
    conn = open_connection(path)
    if request.param:
        rows(conn, "PRAGMA synchronous = OFF")
        for number in range(200):
            put(conn, chat=str(number % 20))
            answer(conn, chat=str(number % 20))
        with transaction(conn):
            messages.announce(conn)
            conn.execute("UPDATE messages SET status = 'completed' WHERE id > 20")
            conn.execute("UPDATE responses SET status = 'acked', acked_at = 1 WHERE id > 20")
        rows(conn, "ANALYZE")
    yield conn
    conn.close()


@pytest.mark.parametrize("name", SQL)
def test_what_the_api_shows_is_found_by_an_index(planned, name):
    conn, sql = planned, SQL[name]
    lines = plan(conn, sql, **dict.fromkeys(re.findall(r":(\w+)", sql), 1))
    scans = [line for line in lines if line.startswith("SCAN") and "json_each" not in line and "CONSTANT" not in line]
    allowed = {FROM_THE_NEWEST.get(name), WHOLE.get(name)}
    assert set(scans) <= allowed, lines
    if name in FROM_THE_NEWEST:
        assert "LIMIT :limit" in sql
        assert "ORDER BY id DESC" in sql
    sorts = [line for line in lines if "TEMP B-TREE" in line]
    assert not sorts or name in ("PROCESSING", "PENDING", "PENDING_OF_NO_ADAPTER"), lines


def test_every_list_is_bounded():
    assert [name for name, sql in SQL.items() if "LIMIT" not in sql and name not in BY_KEY] == []


BY_KEY = ("MESSAGES", "MESSAGE", "OPEN", "WIRED", "OPEN_BY_AGENT", "CHAT", "APPROVAL", "WIRINGS_OF_CHAT")
