"""What happens to messages: they come, turns take them and end, somebody changes them, and they are forgotten."""

import apsw
from hypothesis import strategies as st
from hypothesis.stateful import rule

from shared.core.errors import WrongState
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, messages, ready_sessions
from shared.db.queue.messages import NewMessage
from shared.queue import turns
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from tests.shared.queue.model.model import KEPT_MAIL, LOSSES
from tests.shared.queue.model.rows import CRON, GRID, MAX_ATTEMPTS, Message
from tests.shared.queue.model.store import DAY, LEASE, ComparedStore, numbers
from tests.support import column, dump, enqueue_all

LIMIT = 4  # of a batch
RETRY = RetryPolicy(MAX_ATTEMPTS, base_ms=5000, cap_ms=300_000, jitter=0.0)
# A turn's end: the failure, and what the model is told of it.
FAILURES = {
    "breaks": (Failure("broke"), {}),
    "says nothing of why": (Failure(""), {}),
    "is rejected": (Failure("no use", retryable=False), {"retryable": False}),
    "is asked to wait": (Failure("slow down", wait_ms=7000), {"wait": 7000}),
    "is asked to wait for nothing": (Failure("slow down", wait_ms=0), {}),
    "is asked to wait a second": (Failure("slow down", wait_ms=1000), {"wait": 1000}),
    "is asked to wait for ever": (Failure("slow down", wait_ms=10**15), {"wait": DAY}),
}
TURN_ENDS = ["renews", "settles", "gives back", *FAILURES]
BY_HAND = {"retry": ("dead",), "delete": ("dead",), "cancel": ("pending", "processing", "paused")}
KINDS = {
    "plain": {},
    "context": {"trigger": False},
    "urgent": {"urgency": "urgent"},
    "mail": {"from_agent": "wide"},
    "with its own answer": {"content": '{"own_answer": true}'},
}
SERIES = ["series_1", "series_2"]
MISFIRES = ["coalesce", "catch_up"]


class MessageRules(ComparedStore):
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
        self.model.messages[row_id] = Message(
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
            enqueue_all(self.conn, news, now_ms=self.now)
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

    # -- what is over is forgotten

    def old_messages_are_forgotten(self, age, limit, after):
        cutoff, newest = self.now - age, max(self.model.messages, default=0)
        after %= newest + 1
        seen = [each for id_, each in sorted(self.model.messages.items()) if after < id_ < newest][:limit]
        mail = [each for each in self.model.messages.values() if each.from_agent and each.status == "completed"]
        assert len(mail) < KEPT_MAIL
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
