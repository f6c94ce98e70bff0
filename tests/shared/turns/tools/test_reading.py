import contextlib
import threading

import apsw

from shared.db.engine.connection import transaction
from shared.queue import turns
from shared.queue.teamwork import mailbox
from shared.queue.turns import TurnReply
from tests.shared.turns.tools.calls import Running, running, team_mate
from tests.support import NOW, make_agent, put, take


def test_a_conversation_is_read_oldest_first_and_only_this_one(conn, db):
    with running(conn, db, text="first") as turn, running(conn, db, chat="300", text="secret") as other:
        for each, said in ((turn, "hello Ana"), (other, "hello Ben")):
            with transaction(conn):
                turns.settle(conn, each.claim, [TurnReply(said, each.claim.asked[0])], None, now_ms=NOW)
        put(conn, "second")
        later = Running(turn.process, db, take(conn, token="turn_b"))
        assert later.say("read_thread").splitlines() == [
            "[2027-01-15T08:00:00Z] Ana: first",
            "[2027-01-15T08:00:00Z] assistant: hello Ana",
        ]
        assert later.say("read_thread", limit=1) == "[2027-01-15T08:00:00Z] assistant: hello Ana"


def test_the_first_turn_has_nothing_to_read(conn, db):
    with running(conn, db) as turn:
        assert turn.say("read_thread") == "Nothing was said here before."


def test_a_thread_with_another_agent_is_read_by_one_of_its_messages(conn, db):
    with running(conn, db) as turn:
        team_mate(conn)
        turn.say("send_to_agent", agent="bob", text="6 x 7?")
        with transaction(conn):
            mailbox.reply(conn, 2, "42", now_ms=NOW)
        sent, answered = (each.message.message_id for each in mailbox.thread(conn, 2))
        for name in (sent, answered):
            assert [line.split(" ", 1)[1] for line in turn.say("read_thread", message=name).splitlines()] == [
                "assistant: 6 x 7?",
                "bob: 42",
            ]


def test_a_thread_of_another_conversation_reads_as_one_that_is_not_there(conn, db):
    with running(conn, db) as turn, running(conn, db, chat="300", text="secret") as other:
        team_mate(conn)
        other.say("send_to_agent", agent="bob", text="Ben's secret")
        theirs = mailbox.thread(conn, 3)[0].message.message_id
        chat = other.claim.batch[0].message_id
        assert turn.refusal("read_thread", message=theirs) == f"this conversation has no message '{theirs}'"
        assert turn.refusal("read_thread", message=chat) == f"this conversation has no message '{chat}'"
        assert turn.refusal("read_thread", message="no_00000000") == "this conversation has no message 'no_00000000'"


def test_a_skill_of_the_agents_folder_is_read(conn, db, tmp_path):
    (tmp_path / "agents/assistant/skills/invoices").mkdir(parents=True)
    (tmp_path / "agents/assistant/skills/invoices/SKILL.md").write_text("Add 8.1 percent.")
    with running(conn, db) as turn:
        mine = Running(turn.process, db, turn.claim, agents_dir=tmp_path / "agents")
        assert mine.say("read_skill", name="invoices") == "Add 8.1 percent."
        assert mine.refusal("read_skill", name="bills") == "you have no skill 'bills'; your skills: invoices"


def test_the_history_is_searched_oldest_first_with_the_numbers_of_the_lines(conn, db):
    with running(conn, db, text="tea at nine") as turn:
        with transaction(conn):
            turns.settle(conn, turn.claim, [TurnReply("Tea is ready.", turn.claim.asked[0])], None, now_ms=NOW)
        put(conn, "second")
        later = Running(turn.process, db, take(conn, token="turn_b"))
        assert later.say("search_history", words="tea").splitlines() == [
            "1 [2027-01-15T08:00:00Z] Ana: tea at nine",
            "2 [2027-01-15T08:00:00Z] assistant: Tea is ready.",
        ]
        assert later.say("search_history", words="tea", limit=1).splitlines() == [
            "There may be older ones: before=2.",
            "2 [2027-01-15T08:00:00Z] assistant: Tea is ready.",
        ]
        assert later.say("search_history", words="tea", before=2).endswith("tea at nine")
        assert later.say("search_history", words="coffee") == "Nothing was found in what you may see here."


def test_a_search_runs_no_statement_in_the_thread_of_the_loop(conn, db):
    """It may take 20 ms, and the loop of dispatch carries all turns."""
    with running(conn, db, text="tea at nine") as turn:
        with transaction(conn):
            turns.settle(conn, turn.claim, [], None, now_ms=NOW)
        put(conn, "second")
        later = Running(turn.process, db, take(conn, token="turn_b"))
        for tool, given, in_loop in (("search_history", {"words": "tea"}, False), ("read_thread", {}, True)):
            with statements_of() as ran:
                turn.process.reader.set_exec_trace(ran.note)
                assert "tea at nine" in later.say(tool, **given)
                turn.process.reader.set_exec_trace(None)
            loops = threading.get_ident()
            assert ([each for each in ran.threads if each == loops] != []) is in_loop
            assert ([each for each in ran.threads if each != loops] != []) is not in_loop


class Statements:
    def __init__(self):
        self.threads = []

    def note(self, *_):
        self.threads.append(threading.get_ident())
        return True


@contextlib.contextmanager
def statements_of():
    """The threads of all statements on connections that open meanwhile."""
    ran = Statements()
    apsw.connection_hooks.append(watch := lambda conn: conn.set_exec_trace(ran.note))
    try:
        yield ran
    finally:
        apsw.connection_hooks.remove(watch)


def test_the_history_is_searched_by_the_clock_of_the_agent(conn, db):
    make_agent(conn, "assistant", timezone="Asia/Tokyo")
    with running(conn, db, text="tea at nine") as turn:
        with transaction(conn):
            turns.settle(conn, turn.claim, [], None, now_ms=NOW)
        put(conn, "second")
        later = Running(turn.process, db, take(conn, token="turn_b"))
        assert "tea" in later.say("search_history", since="2027-01-15T17:00", until="2027-01-15T17:01")
        assert "Nothing" in later.say("search_history", since="2027-01-15T17:01")
        assert "Nothing" in later.say("search_history", until="2027-01-15T08:00:00+00:00")
        assert "argument 'since': 'monday' is no instant" in later.refusal("search_history", since="monday")
        assert "give 'words', 'since' or 'until'" in later.refusal("search_history")


def test_a_direct_chats_words_are_not_found_in_another_chat(conn, db):
    with running(conn, db, text="my secret") as turn, running(conn, db, chat="300") as other:
        with transaction(conn):
            turns.settle(conn, turn.claim, [], None, now_ms=NOW)
        assert "Nothing" in other.say("search_history", words="secret")
