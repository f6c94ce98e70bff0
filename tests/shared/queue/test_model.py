"""The store against a model: hypothesis makes up the verbs, the order in which they come, and what the clock says.

After every step the rows, the new events and every question that can be asked must be what ``model`` says. Several
workers hold claims, and come back with them long after they have lost them. A failure prints the steps that lead to it,
shortest first found.
"""

import itertools
import json
import random
import shutil
import tempfile
import time
from pathlib import Path

import apsw
import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from shared.core.errors import ClaimLost, OutcomeUnknown, PermanentError, RateLimited, RetryableError, WrongState
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.queue import claims, messages, ready_sessions, responses, sessions
from shared.db.queue.messages import NewMessage
from shared.queue import deliveries, turns
from shared.queue.delivery_verdicts import DeliveryPolicy
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from tests.shared.queue import model
from tests.shared.queue.model import CRON, GRID, LOSSES, Model
from tests.support import NOW, answer, column, dump, make_agent, make_chat, make_session

LEASE = 30_000
LIMIT = 4  # of a batch
DAY = 24 * 60 * 60 * 1000
RETRY = RetryPolicy(model.MAX_ATTEMPTS, base_ms=5000, cap_ms=300_000, jitter=0.0)
SEND = DeliveryPolicy(model.MAX_ATTEMPTS, base_ms=5000, cap_ms=300_000, unknown_sends="resend", jitter=0.0)
CONCURRENCY = {"assistant": 1, "wide": 2}

# A turn's or a sender's end: the failure, and what the model is told of it.
FAILURES = {
    "breaks": (Failure("broke"), {}),
    "says nothing of why": (Failure(""), {}),
    "is rejected": (Failure("no use", retryable=False), {"retryable": False}),
    "is asked to wait": (Failure("slow down", wait_ms=7000), {"wait": 7000}),
    "is asked to wait for nothing": (Failure("slow down", wait_ms=0), {}),
    "is asked to wait a second": (Failure("slow down", wait_ms=1000), {"wait": 1000}),
    "is asked to wait for ever": (Failure("slow down", wait_ms=10**15), {"wait": DAY}),
}
SEND_FAILURES = {
    "breaks": (RetryableError("broke"), {}),
    "breaks, with a wait": (RetryableError("broke", retry_after_ms=9000), {"wait": 9000}),
    "is refused": (PermanentError("blocked"), {"retryable": False}),
    "is asked to wait": (RateLimited("slow down", retry_after_ms=4000), {"wait": 4000, "is_limit": True}),
    "never hears": (OutcomeUnknown("no answer"), {"is_unknown": True}),
}
BY_HAND = {"retry": ("dead",), "delete": ("dead",), "cancel": ("pending", "processing", "paused")}
TURN_ENDS = ["renews", "settles", "gives back", *FAILURES]
SEND_ENDS = ["sends a part", "is done", *SEND_FAILURES]
KINDS = {
    "plain": {},
    "context": {"trigger": False},
    "urgent": {"urgency": "urgent"},
    "mail": {"from_agent": "wide"},
    "with its own answer": {"content": '{"own_answer": true}'},
}
KEEPING = ["told", "none", "anew", "turns", "sends", "all turns", "lost host", "all sends", "old", "older"]
SERIES = ["series_1", "series_2"]
MISFIRES = ["coalesce", "catch_up"]
STEPS = [0, 1, 999, 2500, 5000, LEASE + 1, GRID, DAY, -1, -5000, -GRID, -DAY]


# What happens: how often, and with which arguments.
ANY = range(100)
PLACES = [0, 0, 0, 1, 2, 3, 4, 4, 5, 5]
LIFE = [
    (
        6,
        "a_message_comes",
        {
            "place": PLACES,
            "kind": [*["plain"] * 6, *["context"] * 4, *KINDS, "urgent", "later"],
            "event": [None, None, None, None, "e1"],
        },
    ),
    (6, "a_worker_takes_a_turn", {"which": ANY, "still": [()]}),
    (6, "a_worker_comes_back", {"which": ANY, "deed": [*["settles", "breaks"] * 6, *TURN_ENDS]}),
    (4, "time_passes", {"step": [*[LEASE, 5000, 5000, GRID] * 5, *STEPS]}),
    (4, "a_sender_takes_a_head", {"which": ANY, "still": [()]}),
    (4, "a_sender_comes_back", {"which": ANY, "deed": [*["is done"] * 6, *SEND_ENDS]}),
    (1, "a_series_begins", {"place": PLACES, "series": SERIES, "misfire": MISFIRES}),
    (3, "somebody_changes_a_message", {"which": ANY, "verb": [*BY_HAND, "retry", "delete"]}),
    (1, "something_is_to_be_said", {"chat": ["1"], "kind": ["plain", "later", "recurring"]}),
    (1, "the_house_is_kept", {"what": KEEPING, "limit": [1, 3, 100], "after": [0]}),
]
WEIGHTS = [weight for weight, *_ in LIFE]
numbers = st.integers(min_value=0, max_value=10**6)


class Store(RuleBasedStateMachine):
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

    # -- messages come

    def new(self, place, **fields):
        agent, session, chat, thread = self.places[place % len(self.places)]
        fields.setdefault("message", "hello")
        return NewMessage(
            *("telegram", "telegram", chat, str(chat), thread), sender="Ana", agent=agent, session_id=session, **fields
        )

    def stored(self, new, row_id, misfire="coalesce"):
        """The model learns of the row; its id was never anybody's before."""
        message_id = messages.id_of(self.conn, row_id)
        assert new.given_id in (None, message_id)
        assert row_id > max((id_ for id_, _ in self.ever), default=0)
        assert message_id not in {known for _, known in self.ever}
        self.ever.add((row_id, message_id))
        self.model.messages[row_id] = model.Message(
            *(row_id, message_id, new.agent, new.session_id, new.chat_id, new.message, self.now, self.now),
            thread=new.thread_id,
            trigger=bool(new.trigger),
            is_urgent=new.urgency == "urgent",
            has_own_answer="own_answer" in new.content,
            from_agent=new.from_agent,
            event_key=new.event_key,
            process_after=new.process_after,
            recurrence=new.recurrence,
            misfire=misfire,
            scheduled_at=new.scheduled_at,
            series=new.series_id,
        )

    @rule(place=numbers, kind=st.sampled_from([*KINDS, "later"]), event=st.sampled_from([None, "e1", "e2"]))
    def a_message_comes(self, place, kind, event):
        fields = {"process_after": self.now + 5000} if kind == "later" else KINDS[kind]
        new = self.new(place, event_key=event, **fields)
        with transaction(self.conn):
            row_id = messages.enqueue(self.conn, new, now_ms=self.now)
        assert (row_id is None) == self.model.has_event(event, new.agent)
        if row_id is not None:
            self.stored(new, row_id)

    @rule(place=numbers, number=st.integers(1, 3), of=st.none() | numbers)
    def a_message_comes_with_an_id(self, place, number, of):
        """Its own, or one that another message has already."""
        known = sorted(each.message_id for each in self.model.messages.values())
        given = f"mine_{number}" if of is None or not known else known[of % len(known)]
        new = self.new(place, given_id=given)
        before = dump(self.conn)
        try:
            with transaction(self.conn):
                row_id = messages.enqueue(self.conn, new, now_ms=self.now)
        except apsw.ConstraintError:
            assert given in known or given in self.model.kept_ids
            assert dump(self.conn) == before
        else:
            assert given not in known
            assert given not in self.model.kept_ids
            self.ever = {(row, known) for row, known in self.ever if known != given}  # a caller may repeat its own
            self.stored(new, row_id)

    @rule(
        place=numbers, kinds=st.lists(st.sampled_from(["plain", "context", "urgent"]), max_size=4), event=st.booleans()
    )
    def messages_come_together(self, place, kinds, event):
        news = [self.new(place, message=str(number), **KINDS[kind]) for number, kind in enumerate(kinds)]
        news += [self.new(place, event_key="e3")] * 2 if event else []
        before = column(self.conn, "SELECT ifnull(max(id), 0) FROM messages")[0]
        with transaction(self.conn):
            messages.enqueue_many(self.conn, news, now_ms=self.now)
        if event:
            news = news[: -2 if self.model.has_event("e3", news[-1].agent) else -1]
        found = column(self.conn, "SELECT id FROM messages WHERE id > :id ORDER BY id", id=before)
        for new, row_id in zip(news, found, strict=True):
            self.stored(new, row_id)

    @rule(
        place=numbers,
        series=st.sampled_from(SERIES),
        misfire=st.sampled_from(MISFIRES),
    )
    def a_series_begins(self, place, series, misfire):
        due = self.now // GRID * GRID + GRID
        new = self.new(
            place,
            **{"process_after": due, "scheduled_at": due, "recurrence": CRON, "timezone": "UTC"},
            **{"series_id": series, "kind": "task"},
        )
        is_live = self.model.has_live(series)
        try:
            with transaction(self.conn):
                row_id = messages.enqueue(self.conn, new, now_ms=self.now)
                rows(self.conn, "UPDATE messages SET misfire = :rule WHERE id = :id", {"rule": misfire, "id": row_id})
        except apsw.ConstraintError:
            assert is_live
        else:
            assert not is_live
            self.stored(new, row_id, misfire)

    def arrivals_are_told(self):
        assert messages.is_unannounced(self.conn) == (max(self.model.messages, default=0) > self.model.announced)
        with transaction(self.conn):
            assert messages.announce(self.conn) == self.model.announce()

    # -- turns

    @rule(which=numbers, still=st.just(()) | st.sets(numbers, max_size=2))
    def a_worker_takes_a_turn(self, which, still):
        """*still*: turns that have not ended in this process, whatever has become of their leases."""
        held = {turn.session_id: turn.agent for turn in (self.turns[n % len(self.turns)] for n in still if self.turns)}
        ready = ready_sessions.find(self.conn, now_ms=self.now, held=held)
        assert [each.session_id for each in ready] == self.model.ready(self.now, held)
        if not ready:
            return
        session, agent = ready[which % len(ready)].session_id, ready[which % len(ready)].agent
        expected, token = self.model.batch(session, self.now, LIMIT), next(self.tokens)
        self.overtakes_nobody(session, expected)
        with transaction(self.conn):
            claim = claims.claim(self.conn, agent, session, token=token, now_ms=self.now, lease_ms=LEASE, limit=LIMIT)
        assert [message.id for message in claim.batch] == [each.id for each in expected]
        assert [message.message_id for message in claim.batch] == [each.message_id for each in expected]
        self.model.claim(expected, token, self.now, LEASE)
        self.turns = [*self.turns[-9:], claim]

    def overtakes_nobody(self, session, batch):
        """P8, said once more without the model's rule: what is older and not in the batch has a reason to be passed."""
        chosen = {each.id for each in batch}
        for taken in (each for each in batch if each.trigger and not each.is_urgent):
            for older in self.model.open(session, "pending"):
                if older.id < taken.id and older.id not in chosen:
                    assert older.failure is None
                    assert older.process_after > self.now

    def a_worker_takes_a_turn_that_is_not_there(self):
        assert [each.session_id for each in ready_sessions.find(self.conn, now_ms=self.now)] == self.model.ready(
            self.now, {}
        )
        idle = [place for place in self.places if not self.model.due(place[1], self.now, LIMIT)]
        before = dump(self.conn)
        for agent, session, *_ in idle:
            with transaction(self.conn):
                assert (
                    claims.claim(
                        self.conn, agent, session, token="turn_x", now_ms=self.now, lease_ms=LEASE, limit=LIMIT
                    )
                    is None
                )
            assert dump(self.conn) == before

    @rule(which=numbers, deed=st.sampled_from(TURN_ENDS))
    def a_worker_comes_back(self, which, deed):
        if not self.turns:
            return
        live = [turn for turn in self.turns if self.model.held(turn.token)]
        robbed = [turn for turn in self.turns if turn not in live and self.is_robbed(turn)]
        pool = (robbed if which % 4 == 0 else live) or self.turns
        turn = pool[which // 4 % len(pool)]
        is_held = bool(self.model.held(turn.token))
        assert claims.is_held(self.conn, turn) == is_held
        self.fenced(is_held, lambda: self.ends(turn, deed, which % 3))
        if not is_held:
            return
        if deed == "renews":
            for each in self.model.held(turn.token):
                each.lease = self.now + LEASE
        elif deed == "settles":
            self.model.settle(turn.token, which % 3, self.now)
        elif deed == "gives back":
            self.model.give_back(turn.token, self.now)
        else:
            failure, how = FAILURES[deed]
            self.model.fail(turn.token, failure.reason or turns.NO_REASON, self.now, **how)
        self.learn_ids()

    def is_robbed(self, turn):
        """Whether somebody else has its messages."""
        return any(
            (mine := self.model.messages.get(message.id)) is not None and mine.token not in (None, turn.token)
            for message in turn.batch
        )

    def ends(self, turn, deed, answers):
        if deed == "renews":
            claims.renew(self.conn, turn, lease_until=self.now + LEASE)
        elif deed == "settles":
            said = [TurnReply("answer", turn.asked[0])] * answers
            turns.settle(self.conn, turn, said, None, now_ms=self.now)
        elif deed == "gives back":
            turns.release(self.conn, turn, now_ms=self.now)
        else:
            turns.fail(self.conn, turn, FAILURES[deed][0], RETRY, now_ms=self.now)

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

    def the_turns_of_the_dead_are_failed(self, *, everything, is_host_lost=False):
        lost = [token for token in self.model.running() if everything or self.model.held(token)[0].lease < self.now]
        with transaction(self.conn):
            rescued = turns.rescue(
                *(self.conn, RETRY),
                now_ms=self.now,
                everything=everything,
                is_host_lost=is_host_lost,
                since_ms=self.now if everything else None,
            )
        assert [claim.token for claim in rescued] == lost
        suspects = [token for token in lost if any(self.model.is_suspect(each.id) for each in self.model.held(token))]
        was_there = any(each.suspicion >= LOSSES["dispatch"] for token in lost for each in self.model.held(token))
        if everything and not (is_host_lost or was_there):
            self.model.acquit(self.now)
        for token in lost:
            what = "dispatch" if token in suspects or not suspects else "dispatch, by another"
            if is_host_lost:
                self.model.lose(token, "host", turns.HOST_LOST, self.now)
            else:
                self.model.lose(token, what, turns.PROCESS_GONE, self.now)
        self.learn_ids()

    # -- by hand

    @rule(which=numbers, verb=st.sampled_from([*BY_HAND]))
    def somebody_changes_a_message(self, which, verb):
        """Any message, or rather one that the verb fits."""
        if not self.model.messages:
            return
        fitting = sorted(id_ for id_, each in self.model.messages.items() if each.status in BY_HAND[verb])
        known = fitting if fitting and which % 5 else sorted(self.model.messages)
        row_id = known[which % len(known)]
        reason = {"reason": "unwanted"} if verb == "cancel" else {}
        before = dump(self.conn)
        try:
            with transaction(self.conn):
                changed = getattr(messages, verb)(self.conn, row_id, now_ms=self.now, **reason)
        except WrongState:
            assert row_id not in fitting
            assert dump(self.conn) == before
            return
        except apsw.ConstraintError:
            assert verb == "retry"  # its series has another live row; no such row carries a recurrence here
            raise
        assert changed.id == row_id
        assert row_id in fitting
        if verb == "cancel":
            self.model.cancel(row_id, "unwanted", self.now)
        else:
            getattr(self.model, verb)(row_id, self.now)

    # -- responses

    @rule(chat=st.sampled_from(["1", "2"]), kind=st.sampled_from(["plain", "plain", "later", "recurring"]))
    def something_is_to_be_said(self, chat, kind):
        due = self.now // GRID * GRID + GRID
        fields = {
            "plain": {},
            "later": {"deliver_after": self.now + 5000},
            "recurring": {"deliver_after": due, "scheduled_at": due, "recurrence": CRON, "timezone": "UTC"},
        }[kind]
        series = {"series_id": "series_3"} if kind == "recurring" else {}
        try:
            id_ = answer(self.conn, chat=chat, now_ms=self.now, **fields, **series)
        except apsw.ConstraintError:
            assert kind == "recurring"
            assert self.model.has_live_response("series_3")
            return
        assert kind != "recurring" or not self.model.has_live_response("series_3")
        assert id_ == self.model.next_response()
        new = model.Response(id_, "", make_chat(self.conn, chat), self.now, deliver_after=fields.get("deliver_after"))
        new.recurrence, new.scheduled_at, new.series = (
            fields.get("recurrence"),
            fields.get("scheduled_at"),
            series.get("series_id"),
        )
        self.model.respond(new)
        self.learn_ids()

    @rule(which=numbers, still=st.just(()) | st.sets(st.sampled_from([1, 2]), max_size=1))
    def a_sender_takes_a_head(self, which, still):
        heads = responses.heads(self.conn, "telegram", now_ms=self.now, held=still)
        assert heads == [id_ for id_ in self.model.heads(self.now) if self.model.responses[id_].chat not in still]
        if not heads:
            return
        id_, token = heads[which % len(heads)], next(self.tokens)
        with transaction(self.conn):
            taken = responses.claim(self.conn, id_, token=token, now_ms=self.now, lease_ms=LEASE)
        self.model.send(id_, token, self.now, LEASE)
        assert (taken.id, list(taken.parts)) == (id_, self.model.responses[id_].parts)
        self.sends = [*self.sends[-9:], taken]

    def is_sending(self, sent):
        mine = self.model.responses.get(sent.id)
        return mine is not None and mine.token == sent.token

    @rule(which=numbers, deed=st.sampled_from(SEND_ENDS))
    def a_sender_comes_back(self, which, deed):
        if not self.sends:
            return
        live = [sent for sent in self.sends if self.is_sending(sent)]
        taken = [each.id for each in self.model.responses.values() if each.status == "delivering"]
        robbed = [sent for sent in self.sends if sent not in live and sent.id in taken]
        pool = (robbed if which % 4 == 0 else live) or self.sends
        sent = pool[which // 4 % len(pool)]
        mine = self.model.responses.get(sent.id)
        is_held = self.is_sending(sent)
        parts = (*sent.parts, "m1")
        until = self.now + LEASE
        verbs = {
            "sends a part": lambda: responses.record_part(self.conn, sent, parts, lease_until=until),
            "is done": lambda: deliveries.acknowledge(self.conn, sent, parts, now_ms=self.now),
        }
        fails = lambda: deliveries.fail(self.conn, sent, SEND_FAILURES[deed][0], SEND, now_ms=self.now)  # noqa: E731
        self.fenced(is_held, verbs.get(deed, fails))
        if not is_held:
            return
        if deed == "sends a part":
            mine.parts, mine.part_started, mine.lease = list(parts), len(parts), until
        elif deed == "is done":
            self.model.ack(sent.id, list(parts), self.now)
        else:
            error, how = SEND_FAILURES[deed]
            self.model.fail_send(sent.id, str(error), self.now, **how)
        self.model.advance_responses(self.now)
        self.learn_ids()

    def the_sends_of_the_dead_are_failed(self, everything):
        lost = [
            id_
            for id_, each in sorted(self.model.responses.items())
            if each.status == "delivering" and (everything or each.lease < self.now)
        ]
        with transaction(self.conn):
            count = deliveries.rescue(self.conn, "telegram", SEND, now_ms=self.now, everything=everything)
        assert count == len(lost)
        for id_ in lost:
            self.model.fail_send(id_, "the process that was sending ended", self.now, is_unknown=True)
            self.model.advance_responses(self.now)
        self.learn_ids()

    # -- what is over is forgotten

    def old_messages_are_forgotten(self, age, limit, after):
        cutoff, newest = self.now - age, max(self.model.messages, default=0)
        after %= newest + 1
        seen = [each for id_, each in sorted(self.model.messages.items()) if after < id_ < newest][:limit]
        mail = [each for each in self.model.messages.values() if each.from_agent and each.status == "completed"]
        assert len(mail) < model.KEPT_MAIL
        doomed = [
            each.id
            for each in seen
            if each.status in ("completed", "cancelled")
            and not each.recurrence
            and each.updated_at < cutoff
            and (each.from_agent is None or each.status == "cancelled")
        ]
        behind = [each for id_, each in self.model.messages.items() if seen and id_ > seen[-1].id]
        goes_on = len(seen) == limit and any(each.created_at < cutoff for each in (*seen, *behind))
        with transaction(self.conn):
            done = messages.prune(self.conn, after_id=after, older_than_ms=cutoff, limit=limit)
        assert done == (len(doomed), seen[-1].id if goes_on else 0)
        for id_ in doomed:
            self.model.remove(id_)

    def old_responses_are_forgotten(self, age):
        cutoff, newest = self.now - age, max(self.model.responses, default=0)
        doomed = [
            each.id
            for each in self.model.responses.values()
            if each.id < newest and each.status == "acked" and not each.recurrence and each.acked_at < cutoff
        ]
        with transaction(self.conn):
            count, _ = responses.prune(self.conn, after_id=0, older_than_ms=cutoff, limit=1000)
        assert count == len(doomed)
        for id_ in doomed:
            del self.model.responses[id_]

    # -- how often

    @rule(what=st.sampled_from(KEEPING), limit=st.sampled_from([100, 3, 1]), after=st.just(0) | numbers)
    def the_house_is_kept(self, what, limit, after):
        deeds = {
            "told": self.arrivals_are_told,
            "none": self.a_worker_takes_a_turn_that_is_not_there,
            "anew": self.the_process_starts_anew,
            "turns": lambda: self.the_turns_of_the_dead_are_failed(everything=False),
            "sends": lambda: self.the_sends_of_the_dead_are_failed(everything=False),
            "all turns": lambda: self.the_turns_of_the_dead_are_failed(everything=True),
            "lost host": lambda: self.the_turns_of_the_dead_are_failed(everything=True, is_host_lost=True),
            "all sends": lambda: self.the_sends_of_the_dead_are_failed(everything=True),
            "old": lambda: (self.old_messages_are_forgotten(0, limit, after), self.old_responses_are_forgotten(0)),
            "older": lambda: (self.old_messages_are_forgotten(DAY, limit, 0), self.old_responses_are_forgotten(DAY)),
        }
        deeds[what]()

    @rule(seed=numbers, count=st.integers(1, 60))
    def a_busy_hour(self, seed, count):
        for told in self.lives(random.Random(seed), count):
            note(told)

    def lives(self, chance, count):
        """*count* steps by plain chance, as likely as life has them; each is told before it is done."""
        for _ in range(count):
            ((_, verb, choices),) = chance.choices(LIFE, WEIGHTS)
            arguments = {name: chance.choice(values) for name, values in choices.items()}
            yield f"{verb}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
            getattr(self, verb)(**arguments)
            self.the_rows_are_what_the_model_says()
            self.every_change_has_its_event()
            self.one_turn_a_session_and_no_more_of_an_agent_than_it_may()

    # -- what must be true at any time

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

    @invariant()
    def the_rows_are_what_the_model_says(self):
        found = rows(self.conn, model.Message.COLUMNS)
        assert found == [each.row() for _, each in sorted(self.model.messages.items())]
        found = rows(self.conn, model.Response.COLUMNS)
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
        later = [
            each.process_after for each in known.values() if each.status == "pending" and model.is_later(each, self.now)
        ]
        assert ready_sessions.next_due(self.conn, now_ms=self.now) == min(later, default=None)
        urgent = {session for _, session, *_ in self.places if self.model.has_urgent(session, self.now)}
        assert ready_sessions.urgent_sessions(self.conn, now_ms=self.now).keys() == urgent
        counts = messages.counts(self.conn)
        for status in ("pending", "processing", "dead"):
            told = sum(1 for each in known.values() if each.status == status and (each.trigger or status == "dead"))
            assert counts[status] == told


def by_hypothesis(fresh_database, **profile):
    Store.fresh = fresh_database
    profile |= {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
    run_state_machine_as_test(Store, settings=settings(**profile))


def by_chance(fresh_database, seed, count):
    """A full house, which hypothesis is slow to come to."""
    Store.fresh = fresh_database
    store = Store()
    told = [f"seed {seed}"]
    try:
        told.extend(store.lives(random.Random(seed), count))
        store.nothing_is_there_twice()
        store.every_question_has_its_answer()
    except BaseException:
        print("\n".join(told))
        raise
    finally:
        store.teardown()


def test_the_store_does_what_the_model_says(fresh_database):
    """The same steps every time; a failure is made short."""
    by_hypothesis(fresh_database, derandomize=True, max_examples=20, stateful_step_count=25)


@pytest.mark.parametrize("seed", range(6))
def test_the_store_does_what_the_model_says_in_a_full_house(fresh_database, seed):
    by_chance(fresh_database, seed, 500)


@pytest.mark.long
def test_the_store_does_what_the_model_says_at_length(fresh_database):
    """Other steps every time; a failure prints how to repeat it."""
    by_hypothesis(fresh_database, print_blob=True, max_examples=100, stateful_step_count=50)


@pytest.mark.long
def test_the_store_does_what_the_model_says_in_many_full_houses(fresh_database):
    """Other steps every time; a failure prints its seed."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        by_chance(fresh_database, random.randrange(10**9), 500)
