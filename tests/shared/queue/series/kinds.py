"""A plan as a message and as a response: the same verbs for both."""

import json

from shared.core.errors import PermanentError, RetryableError
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, responses
from shared.db.queue.messages import NewMessage
from shared.db.queue.responses import NewResponse
from shared.db.queue.schedules.message_series import MESSAGES
from shared.db.queue.schedules.response_series import RESPONSES
from shared.queue import deliveries, series, turns
from shared.queue.delivery_verdicts import DeliveryPolicy
from shared.queue.series import When
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from tests.support import LEASE, NOW, column, make_session

HOUR = 3_600_000
DAY = 24 * HOUR
NINE = NOW + HOUR  # 09:00 UTC
DAILY = When(recurrence="0 9 * * *", timezone="UTC", label="report")
ONCE = When(due_ms=NINE, label="reminder")


class Messages:
    """A planned message, and what a turn does to it."""

    table, series, due = "messages", MESSAGES, "process_after"

    def __init__(self, conn):
        self.conn = conn

    def plan(self, when, now_ms=NOW, text="write the report"):
        chat, session = make_session(self.conn)
        new = NewMessage("task", "telegram", chat, "100", sender="Ana", message=text, agent="assistant")
        with transaction(self.conn):
            new = new._replace(session_id=session, kind="task")
            return series.plan_message(self.conn, new, when, now_ms=now_ms)

    def begin(self, now_ms):
        session = make_session(self.conn)[1]
        with transaction(self.conn):
            return claims.claim(
                self.conn,
                *("assistant", session),
                token="turn_a",
                now_ms=now_ms,
                lease_ms=LEASE,
                limit=1,
                pass_over=series.pass_over_messages,
            )

    def text_of(self, begun):
        return begun.batch[0].message

    def finish(self, begun, now_ms):
        with transaction(self.conn):
            turns.settle(self.conn, begun, [TurnReply("done", begun.asked[0])], None, now_ms=now_ms)

    def fail(self, begun, now_ms, *, for_good=False):
        policy = RetryPolicy(max_attempts=5, base_ms=5000, cap_ms=300_000, jitter=0.0)
        with transaction(self.conn):
            turns.fail(self.conn, begun, Failure("broken", retryable=not for_good), policy, now_ms=now_ms)


class Responses:
    """A planned response, and what its delivery does to it."""

    table, series, due = "responses", RESPONSES, "deliver_after"

    def __init__(self, conn):
        self.conn = conn

    def plan(self, when, now_ms=NOW, text="write the report"):
        chat, _ = make_session(self.conn)
        new = NewResponse("proactive_00000001", "telegram", "Ana", text, chat_id=chat, platform_id="100")
        with transaction(self.conn):
            return series.plan_response(self.conn, new, when, now_ms=now_ms)

    def begin(self, now_ms):
        for head in responses.heads(self.conn, "telegram", now_ms=now_ms):
            with transaction(self.conn):
                sending = deliveries.claim(self.conn, head, token="send_a", now_ms=now_ms, lease_ms=LEASE)
                return sending and sending.response
        return None

    def text_of(self, begun):
        return begun.message

    def finish(self, begun, now_ms):
        with transaction(self.conn):
            deliveries.acknowledge(self.conn, begun, ("m1",), now_ms=now_ms)

    def fail(self, begun, now_ms, *, for_good=False):
        policy = DeliveryPolicy(max_attempts=5, base_ms=5000, cap_ms=300_000, unknown_sends="resend", jitter=0.0)
        error = PermanentError("broken") if for_good else RetryableError("broken")
        with transaction(self.conn):
            deliveries.fail(self.conn, begun, error, policy, now_ms=now_ms)


def do(kind, verb, *args, now_ms=NOW):
    with transaction(kind.conn):
        return verb(kind.conn, *args, now_ms=now_ms)


def live(kind):
    """The rows that carry a series on, with the instants they are due at."""
    return rows(kind.conn, f"SELECT series_id, {kind.due} FROM {kind.table} WHERE recurrence IS NOT NULL")


def told(kind, type_):
    return [json.loads(data) for data in column(kind.conn, "SELECT data FROM events WHERE type = :type", type=type_)]
