"""The ends of a turn, as dispatch writes them."""

from shared.db.engine.connection import transaction
from shared.queue import turns
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from tests.support import NOW

POLICY = RetryPolicy(max_attempts=5, base_ms=5000, cap_ms=300_000, jitter=0.0)
DAY = 24 * 60 * 60 * 1000
BROKEN = Failure("it broke")


def settle(conn, claim, *said, now_ms=NOW):
    with transaction(conn):
        turns.settle(conn, claim, said or [TurnReply("answer", claim.asked[0])], "go on", now_ms=now_ms)


def fail(conn, claim, failure=BROKEN, policy=POLICY, now_ms=NOW):
    with transaction(conn):
        return turns.fail(conn, claim, failure, policy, now_ms=now_ms)
