"""What happens to responses: they are made, senders take them and end, and they are forgotten."""

import apsw
from hypothesis import strategies as st
from hypothesis.stateful import rule

from shared.core.errors import OutcomeUnknown, PermanentError, RateLimited, RetryableError
from shared.db.engine.connection import transaction
from shared.db.queue import responses
from shared.queue import deliveries
from shared.queue.delivery_verdicts import DeliveryPolicy
from tests.shared.queue.model.rows import CRON, GRID, MAX_ATTEMPTS, Response
from tests.shared.queue.model.store import LEASE, ComparedStore, numbers
from tests.support import answer, make_chat

SEND = DeliveryPolicy(MAX_ATTEMPTS, base_ms=5000, cap_ms=300_000, unknown_sends="resend", jitter=0.0)
# A sender's end: the failure, and what the model is told of it.
SEND_FAILURES = {
    "breaks": (RetryableError("broke"), {}),
    "breaks, with a wait": (RetryableError("broke", retry_after_ms=9000), {"wait": 9000}),
    "is refused": (PermanentError("blocked"), {"retryable": False}),
    "is asked to wait": (RateLimited("slow down", retry_after_ms=4000), {"wait": 4000, "is_limit": True}),
    "never hears": (OutcomeUnknown("no answer"), {"is_unknown": True}),
}
SEND_ENDS = ["sends a part", "is done", *SEND_FAILURES]


class ResponseRules(ComparedStore):
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
        new = Response(id_, "", make_chat(self.conn, chat), self.now, deliver_after=fields.get("deliver_after"))
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

    def old_responses_are_forgotten(self, age):
        cutoff, newest = self.now - age, max(self.model.responses, default=0)
        asked = {each.message_id for each in self.model.messages.values() if each.status in ("pending", "processing")}
        doomed = [
            each.id
            for each in self.model.responses.values()
            if each.id < newest
            and each.status == "acked"
            and not each.recurrence
            and each.acked_at < cutoff
            and each.message_id not in asked  # its turn may ask whether this was said
        ]
        with transaction(self.conn):
            count, _ = responses.prune(self.conn, after_id=0, older_than_ms=cutoff, limit=1000)
        assert count == len(doomed)
        for id_ in doomed:
            del self.model.responses[id_]
