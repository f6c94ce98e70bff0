"""What tests of claims do with a claim."""

from shared.db.engine.connection import transaction
from shared.db.queue import claims
from shared.db.queue.claims import MessageVerdict
from tests.support import NOW

RETRY = MessageVerdict(dead=False, retry_count=1, process_after=NOW + 5000, reason="broken")


def fail(conn, claim, verdict=RETRY, now_ms=NOW):
    with transaction(conn):
        claims.fail(conn, claim, {message.id: verdict for message in claim.asked}, now_ms=now_ms)


def complete(conn, claim, now_ms=NOW):
    with transaction(conn):
        claims.complete(conn, claim, now_ms=now_ms)
