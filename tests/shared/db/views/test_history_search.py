"""Search in an agent's history: what a conversation may see of it, and the index behind it."""

import contextlib
import resource
import stat

import apsw
import pytest

from shared.core.errors import ConfigInvalid
from shared.db.engine import meta
from shared.db.engine.connection import rows, transaction
from shared.db.queue import agent_messages, sessions
from shared.db.queue.agent_messages import AgentMessage
from shared.db.views import history_index, history_search
from shared.db.views.history_index import HistoryIndexer
from shared.db.views.history_search import HistoryQuestion
from tests.support import NOW, column, make_agent, make_chat

DAY_MS = 24 * 60 * 60 * 1000


def session(conn, chat="100", *, agent="assistant", is_group=False, strangers=False, private_to=None):
    chat_id = make_chat(conn, chat, is_group=is_group)
    with transaction(conn):
        row = sessions.ensure(conn, agent, chat_id, None, private_to=private_to, now_ms=NOW)
        if strangers:
            sessions.note_strangers(conn, row, now_ms=NOW)
    return sessions.known(conn, row)


def say(conn, where, text, at_ms=NOW):
    line = AgentMessage(where.agent, "user", "telegram", "Ana", "m1", text, at_ms, where.id)
    with transaction(conn):
        agent_messages.append(conn, [line])


def index(conn, db, **more):
    return HistoryIndexer(db, pause=lambda _: None).work(conn, **more)


def texts(conn, db, where, words="", *, sees_groups=True, **more):
    found = history_search.search(conn, db, where, HistoryQuestion(words, **more), sees_groups=sees_groups)
    return [each.text for each in found]


@pytest.fixture(params=["indexed", "not indexed yet", "half indexed"])
def ready(request, conn, db):
    """Brings the index into a state; a search finds the same in all of them."""

    def bring():
        if request.param == "indexed":
            index(conn, db)
        if request.param == "half indexed":
            newest = rows(conn, "SELECT * FROM agent_messages WHERE id > 1")
            with transaction(conn):
                conn.execute("DELETE FROM agent_messages WHERE id > 1")
            index(conn, db)
            with transaction(conn):
                conn.executemany(f"INSERT INTO agent_messages VALUES ({', '.join('?' * 10)})", newest)

    return bring


WORDS = {
    "a word": ("zurich", ["Zürich, 3 May"]),
    "in other letters": ("ZÜRICH", ["Zürich, 3 May"]),
    "all of several words": ("may zurich", ["Zürich, 3 May"]),
    "a number": ("42", ["invoice 42 is paid"]),
    "the beginning of words": ("invoic*", ["two invoices", "invoice 42 is paid"]),
    "a whole word only": ("invoic", []),
    "no operator": ("invoice OR zurich", []),
    "no column": ("marks:s1", []),
    "a quote": ('"42"', ["invoice 42 is paid"]),
}


@pytest.mark.parametrize(("words", "expected"), WORDS.values(), ids=WORDS)
def test_lines_are_found_by_their_words(conn, db, ready, words, expected):
    here = session(conn)
    for text in ("Zürich, 3 May", "invoice 42 is paid", "two invoices"):
        say(conn, here, text)
    ready()
    assert texts(conn, db, here, words) == expected


def test_lines_are_found_by_time_newest_first_and_page_by_page(conn, db, ready):
    here = session(conn)
    for number in range(6):
        say(conn, here, f"tea {number}", NOW + number * DAY_MS)
    ready()
    assert texts(conn, db, here, since_ms=NOW + DAY_MS, until_ms=NOW + 4 * DAY_MS) == ["tea 3", "tea 2", "tea 1"]
    assert texts(conn, db, here, "tea", until_ms=NOW + 1) == ["tea 0"]
    assert texts(conn, db, here, "tea", limit=2) == ["tea 5", "tea 4"]
    assert texts(conn, db, here, "tea", limit=2, before=5) == ["tea 3", "tea 2"]


@pytest.mark.parametrize("days", [3, 200])
def test_a_long_time_is_searched_by_months_and_a_short_one_by_days(conn, db, ready, days):
    here = session(conn)
    for number in range(10):
        say(conn, here, f"tea {number}", NOW + number * days * DAY_MS)
    ready()
    found = texts(conn, db, here, "tea", since_ms=NOW + 2 * days * DAY_MS, until_ms=NOW + 4 * days * DAY_MS + 1)
    assert found == ["tea 4", "tea 3", "tea 2"]
    assert texts(conn, db, here, "tea", until_ms=NOW) == []
    assert texts(conn, db, here, "tea", since_ms=NOW + 10 * days * DAY_MS) == []
    assert len(texts(conn, db, here, "tea", since_ms=0, until_ms=NOW + 5 * days * DAY_MS)) == 5


def test_a_star_needs_letters_before_it(conn, db):
    with pytest.raises(ConfigInvalid, match="at least 4 letters"):
        texts(conn, db, session(conn), "inv*")


OTHERS = {
    "another direct chat": {"chat": "200"},
    "a private session of the chat": {"private_to": "5"},
    "a private session of a group": {"chat": "-1", "is_group": True, "private_to": "5"},
    "another agent": {"agent": "bob"},
    "a group with strangers": {"chat": "-1", "is_group": True, "strangers": True},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_what_a_conversation_may_not_see_is_not_found(conn, db, ready, other):
    make_agent(conn, "bob")
    here, there = session(conn), session(conn, **other)
    say(conn, here, "tea here")
    say(conn, there, "tea there")
    ready()
    assert texts(conn, db, here, "tea") == ["tea here"]
    assert texts(conn, db, there, "tea") == ["tea there"]


def test_groups_without_strangers_are_seen_where_the_agents_row_shares_and_direct_chats_stay_private(conn, db, ready):
    direct, group = session(conn), session(conn, "-1", is_group=True)
    other_group, strangers = session(conn, "-2", is_group=True), session(conn, "666", strangers=True)
    for where, text in ((direct, "tea, privately"), (group, "tea in the group")):
        say(conn, where, text)
    ready()
    assert texts(conn, db, direct, "tea") == ["tea in the group", "tea, privately"]
    assert texts(conn, db, direct, "tea", sees_groups=False) == ["tea, privately"]
    assert texts(conn, db, other_group, "tea") == ["tea in the group"]
    assert texts(conn, db, strangers, "tea") == []


def test_earlier_sessions_of_the_conversation_are_seen_but_for_those_with_strangers(conn, db, ready):
    for text, strangers in (("tea 1", False), ("tea 2", True), ("tea 3", False)):
        here = session(conn, strangers=strangers)
        say(conn, here, text)
        with transaction(conn):
            sessions.succeed(conn, sessions.close(conn, here.id, now_ms=NOW), now_ms=NOW)
    ready()
    assert texts(conn, db, session(conn), "tea") == ["tea 3", "tea 1"]


# -- the index ---------------------------------------------------------------------------------------------------------


def words_of(db):
    with contextlib.closing(apsw.Connection(str(history_index.path_of(db)))) as conn:
        conn.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, words, row)")
        return set(column(conn, "SELECT term FROM temp.terms"))


def test_the_index_grows_in_slices_and_only_by_what_is_new(conn, db):
    here = session(conn)
    line = AgentMessage("assistant", "user", "telegram", "Ana", "m1", "tea", NOW, here.id)
    with transaction(conn):
        agent_messages.append(conn, [line] * (2 * history_index.SLICE + 3))
    pauses = []
    indexer = HistoryIndexer(db, pause=pauses.append)
    assert indexer.work(conn, longest_s=0) == history_index.SLICE
    assert indexer.work(conn) == history_index.SLICE + 3
    assert len(pauses) == 1
    assert indexer.work(conn) == 0
    say(conn, here, "more tea")
    assert indexer.work(conn) == 1


def test_lines_that_are_gone_leave_the_index_with_their_words(conn, db):
    here = session(conn)
    for text in ("secret", "tea"):
        say(conn, here, text)
    index(conn, db)
    assert {"secret", "tea"} <= words_of(db)
    with transaction(conn):
        conn.execute("DELETE FROM agent_messages WHERE content = 'secret'")
    assert texts(conn, db, here, "secret") == []
    index(conn, db)
    assert words_of(db) & {"secret", "tea"} == {"tea"}
    assert b"secret" not in history_index.path_of(db).read_bytes()


def test_the_index_holds_no_text_and_is_for_its_owner_alone(conn, db):
    say(conn, session(conn), "The quick brown fox")
    index(conn, db)
    path = history_index.path_of(db)
    assert b"quick brown" not in path.read_bytes().lower()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("why", ["a restore", "an older copy of the database", "a damaged file", "another form"])
def test_an_index_of_other_rows_is_built_anew(conn, db, why):
    here = session(conn)
    for text in ("tea", "coffee"):
        say(conn, here, text)
    index(conn, db)
    path = history_index.path_of(db)
    with transaction(conn):
        if why == "a restore":
            conn.execute("UPDATE agent_messages SET content = 'milk' WHERE id = 2")
            meta.put(conn, "epoch", "epoch_new")
        if why == "an older copy of the database":
            conn.execute("DELETE FROM agent_messages WHERE id = 2")
    if why == "a damaged file":
        path.write_bytes(b"no database" * 1000)
    if why == "another form":
        with contextlib.closing(apsw.Connection(str(path))) as other:
            other.execute("UPDATE about SET value = '0' WHERE name = 'form'")
    assert texts(conn, db, here, "tea") == ["tea"]
    assert index(conn, db) == len(column(conn, "SELECT id FROM agent_messages"))
    assert "tea" in words_of(db)
    assert ("coffee" in words_of(db)) is (why in ("a damaged file", "another form"))


def test_a_deleted_index_comes_back(conn, db):
    here = session(conn)
    say(conn, here, "tea")
    index(conn, db)
    history_index.path_of(db).unlink()
    assert texts(conn, db, here, "tea") == ["tea"]
    assert index(conn, db) == 1


def test_an_error_of_the_disk_is_raised_as_it_is_and_a_later_sweep_goes_on(conn, db):
    here = session(conn)
    say(conn, here, "tea")
    index(conn, db)
    say(conn, here, "coffee")
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, most))  # the journal of one page is longer
    try:
        with pytest.raises(apsw.IOError):
            index(conn, db)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))
    assert index(conn, db) == 1


def test_a_search_reads_the_index_from_its_newest_line_and_new_rows_by_their_agent(conn, db):
    say(conn, session(conn), "tea")
    index(conn, db)
    with contextlib.closing(history_index.opened(db)) as opened:
        key = {"question": "x", "since": 0, "until": 1, "before": 9, "limit": 1}
        plan = [row[3] for row in opened.execute(f"EXPLAIN QUERY PLAN {history_index.MATCHING}", key)]
    assert plan[0].startswith("SCAN words VIRTUAL TABLE INDEX")
    assert not any("TEMP B-TREE" in each for each in plan)
    assert plan[1].endswith("USING INTEGER PRIMARY KEY (rowid=?)")
    key = {"agent": "a", "after": 1, "before": 9, "limit": 1}
    new = [row[3] for row in conn.execute(f"EXPLAIN QUERY PLAN {history_search.NEW_LINES}", key)]
    assert new[0] == "SEARCH a USING INDEX agent_messages_of_agent (agent_id=? AND id>? AND id<?)"
