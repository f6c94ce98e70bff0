"""The store beside its model: what every rule needs, and what must be true after each step."""

import itertools
import json
import shutil
import tempfile
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from shared.core.errors import ClaimLost
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.queue import messages, ready_sessions, sessions
from tests.shared.queue.model.model import Model, is_later
from tests.shared.queue.model.rows import GRID, Message, Response
from tests.support import NOW, column, dump, make_agent, make_chat, make_session

LEASE = 30_000
DAY = 24 * 60 * 60 * 1000
CONCURRENCY = {"assistant": 1, "wide": 2}
STEPS = [0, 1, 999, 2500, 5000, LEASE + 1, GRID, DAY, -1, -5000, -GRID, -DAY]
numbers = st.integers(min_value=0, max_value=10**6)


class ComparedStore(RuleBasedStateMachine):
    """Every rule does the same to the store and to the model."""

    fresh: Path

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="model-")
        self.path = Path(self.folder.name) / "p.db"
        shutil.copy(self.fresh, self.path)
        self.conn = self.opened()
        self.model = Model(CONCURRENCY)
        self.now = NOW
        self.tokens = map("turn_{}".format, itertools.count(1))
        self.turns, self.sends = [], []  # of every worker that ever took one, also of those that lost them
        self.ever = set()  # ids of messages
        self.told = 0  # the newest event that was looked at
        make_agent(self.conn, "wide", concurrency=2)
        self.places = []  # agent, session, chat, thread
        for agent, chat in (("assistant", "1"), ("assistant", "2"), ("wide", "1"), ("wide", "2")):
            chat_id, session = make_session(self.conn, agent, chat)
            self.places.append((agent, session, chat_id, None))
        with transaction(self.conn):
            shared = sessions.ensure(self.conn, "wide", None, None, now_ms=NOW)
        self.places += [
            ("wide", shared, make_chat(self.conn, chat), thread) for chat, thread in (("1", None), ("2", "7"))
        ]

    def opened(self):
        conn = open_connection(self.path)
        rows(conn, "PRAGMA synchronous = OFF")  # the power stays on
        return conn

    def teardown(self):
        self.conn.close()
        self.folder.cleanup()

    # -- the clock

    @rule(step=st.sampled_from(STEPS))
    def time_passes(self, step):
        self.now += step

    def the_process_starts_anew(self):
        self.conn.close()
        self.conn = self.opened()

    # -- what each rule needs

    def fenced(self, is_held, verb):
        """Whoever has lost its hold changes nothing."""
        before = None if is_held else dump(self.conn)
        try:
            with transaction(self.conn):
                verb()
        except ClaimLost:
            assert not is_held
            assert dump(self.conn) == before
        else:
            assert is_held

    def learn_ids(self):
        """The ids of rows that the store made by itself: the model only knows that they are there, and new."""
        for id_, each in self.model.messages.items():
            if not each.message_id:
                each.message_id = messages.id_of(self.conn, id_)
                if not each.trigger:  # an agent's note
                    (each.message,) = column(self.conn, "SELECT message FROM messages WHERE id = :id", id=id_)
                    assert each.message.startswith("Your answer ")
                assert each.message_id.startswith("task_" if each.trigger else "internal_")
                assert (id_, each.message_id) not in self.ever
                self.ever.add((id_, each.message_id))
        unnamed = {id_ for id_, each in self.model.responses.items() if not each.message_id}
        for id_, message_id in rows(self.conn, "SELECT id, message_id FROM responses") if unnamed else []:
            if id_ in unnamed:
                self.model.responses[id_].message_id = message_id
        self.model.events = [
            (type_, message_id or self.model.responses[of].message_id, of, data)
            for type_, message_id, of, data in self.model.events
        ]

    # -- what must be true at any time

    @invariant()
    def the_rows_are_what_the_model_says(self):
        found = rows(self.conn, Message.COLUMNS)
        assert found == [each.row() for _, each in sorted(self.model.messages.items())]
        found = rows(self.conn, Response.COLUMNS)
        assert found == [each.row() for _, each in sorted(self.model.responses.items())]

    @invariant()
    def every_change_has_its_event(self):
        found = rows(
            self.conn,
            "SELECT id, type, message_id, response_id, data FROM events WHERE id > :told ORDER BY id",
            {"told": self.told},
        )
        assert [(*event, json.loads(data)) for _, *event, data in found] == self.model.events
        self.told = found[-1][0] if found else self.told
        self.model.events = []

    @invariant()
    def one_turn_a_session_and_no_more_of_an_agent_than_it_may(self):
        held = rows(
            self.conn, "SELECT DISTINCT agent, session_id, claimed_by FROM messages WHERE status = 'processing'"
        )
        assert len({session for _, session, _ in held}) == len(held)
        for agent, concurrency in CONCURRENCY.items():
            assert sum(1 for each in held if each[0] == agent) <= concurrency

    @invariant()
    def nothing_is_there_twice(self):
        for what in (
            "channel, event_key, agent FROM messages WHERE event_key IS NOT NULL",
            "series_id FROM messages WHERE recurrence IS NOT NULL AND status IN ('pending', 'processing', 'paused')",
            "series_id FROM responses WHERE recurrence IS NOT NULL AND status IN ('pending', 'delivering')",
            "chat_id FROM responses WHERE status = 'delivering'",
            "message_id FROM messages WHERE true",
            "message_id FROM events WHERE type = 'message_received' AND message_id NOT GLOB 'mine_*'",  # repeated
        ):
            columns = what.partition(" FROM")[0]
            assert rows(self.conn, f"SELECT {what} GROUP BY {columns} HAVING count(*) > 1") == []

    @invariant()
    def every_question_has_its_answer(self):
        known = self.model.messages
        for row_id, message_id in self.ever:
            assert messages.find(self.conn, message_id) == (row_id if row_id in known else None)
        later = [each.process_after for each in known.values() if each.status == "pending" and is_later(each, self.now)]
        assert ready_sessions.next_due(self.conn, now_ms=self.now) == min(later, default=None)
        urgent = {session for _, session, *_ in self.places if self.model.has_urgent(session, self.now)}
        assert ready_sessions.urgent_sessions(self.conn, now_ms=self.now).keys() == urgent
        counts = messages.counts(self.conn)
        for status in ("pending", "processing", "dead"):
            told = sum(1 for each in known.values() if each.status == status and (each.trigger or status == "dead"))
            assert counts[status] == told
