"""Cards that people decide on, and what came of them."""

from shared.conversation.access import people, requests
from shared.conversation.inbound import decisions, undecided
from shared.conversation.inbound.decisions import OPERATOR
from shared.db.engine.connection import rows, transaction
from tests.approval_requests import LATE, POLICY, event
from tests.support import NOW, column

LATER = NOW + 5


def decide(conn, approval, choice=0, by=OPERATOR, now_ms=LATER):
    with transaction(conn):
        return decisions.decide(conn, approval.approval_id, choice, by, policy=POLICY, now_ms=now_ms)


def press(conn, approval, choice=0, sender="1", key="c1", channel="telegram", now_ms=LATER, chat=None):
    token = approval if isinstance(approval, str) else f"{approval.approval_id}.{choice}"
    pressed = event(key, sender, chat or sender, kind="callback", text=token, context={"callback_id": "q"})
    with transaction(conn):
        return decisions.click(conn, channel, pressed, policy=POLICY, now_ms=now_ms)


def dropped(conn):
    return rows(conn, "SELECT reason, event_key FROM dropped ORDER BY id")


def standing(conn, sender="5"):
    return people.standing(conn, "telegram", sender)


def texts(conn, **of):
    return column(conn, "SELECT message FROM messages ORDER BY id")


def said(conn):
    """What was said after the cards."""
    return [message for (message,) in rows(conn, "SELECT message FROM responses WHERE content NOT LIKE '%buttons%'")]


def ask_action(conn, session, action="create_agent", given=None):
    with transaction(conn):
        return requests.ask_action(
            conn, session, "assistant", action, given or {"name": "Bob"}, policy=POLICY, now_ms=NOW
        )


def expire(conn, now_ms=LATE):
    with transaction(conn):
        return undecided.expire(conn, limit=9, now_ms=now_ms)
