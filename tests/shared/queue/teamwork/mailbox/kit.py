"""Agents that write to each other, and what is in their mailboxes."""

from shared.db.engine.connection import transaction
from shared.db.queue import claims, ready_sessions
from shared.queue import turns
from shared.queue.teamwork import mailbox
from shared.queue.turns import RetryPolicy, TurnReply
from tests.support import LEASE, NOW

POLICY = RetryPolicy(max_attempts=5, base_ms=5000, cap_ms=300_000, jitter=0.0)


def send(conn, sender, recipient, body="hello", now_ms=NOW, **more):
    with transaction(conn):
        return mailbox.send(conn, sender, recipient, body, now_ms=now_ms, **more)


def reply(conn, original, body="well", now_ms=NOW, **more):
    with transaction(conn):
        return mailbox.reply(conn, original, body, now_ms=now_ms, **more)


def consume(conn, agent, now_ms=NOW):
    with transaction(conn):
        return mailbox.consume(conn, agent, now_ms=now_ms)


def begin(conn, agent, now_ms=NOW):
    """The agent's next turn, or None."""
    for each in ready_sessions.find(conn, now_ms=now_ms):
        if each.agent == agent:
            with transaction(conn):
                return claims.claim(
                    conn, agent, each.session_id, token="turn_a", now_ms=now_ms, lease_ms=LEASE, limit=10
                )
    return None


def end(conn, claim, text, now_ms=NOW):
    with transaction(conn):
        turns.settle(conn, claim, [TurnReply(text, claim.asked[0])], None, now_ms=now_ms)


def say(conn, agent, text, now_ms=NOW):
    """The agent's next turn, in which it says *text*; the messages that it was about."""
    claim = begin(conn, agent, now_ms)
    end(conn, claim, text, now_ms)
    return claim.batch


def ask(conn, sender, recipient, text):
    """In its next turn, *sender* asks *recipient* and says that it does."""
    claim = begin(conn, sender)
    asked = send(conn, sender, recipient, text, because=claim.batch[0].id)
    end(conn, claim, f"I ask {recipient}")
    return asked
