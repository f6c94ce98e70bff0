"""Events for the router, and what it made of them."""

from dataclasses import replace

from shared.channels.base import Event
from shared.conversation.access import people
from shared.conversation.routing import router
from shared.core.policy import AccessPolicy
from shared.db.access import users
from shared.db.engine.connection import rows, transaction
from shared.db.roster import chats
from shared.roster import wirings
from tests.support import NOW, column, make_agent

SECRET = "what the person wrote"
OPEN = AccessPolicy(new_chats="refuse", sender_limit=0, chat_limit=0, sender_bytes=0)
ASK, WIRE = replace(OPEN, new_chats="ask"), replace(OPEN, new_chats="wire")
NOBODY = "nobody"
IN_THREAD = {"is_group": True, "thread_id": "7"}
EVERY_ROLE = ("owner", "admin", "scoped", "member", "user", "refused", NOBODY)
YES, HELD = "stored", "held"
UNKNOWN, NEVER, NOT_KNOWN = "sender_unknown", "sender_refused", "not_known"
ACCESS = {  # by policy and scope, for each of EVERY_ROLE
    ("public", "all"): (YES, YES, YES, YES, YES, NEVER, YES),
    ("public", "known"): (YES, YES, YES, YES, NOT_KNOWN, NEVER, NOT_KNOWN),
    ("request_approval", "all"): (YES, YES, YES, YES, HELD, NEVER, HELD),
    ("request_approval", "known"): (YES, YES, YES, YES, HELD, NEVER, HELD),
    ("strict", "all"): (YES, YES, YES, YES, UNKNOWN, NEVER, UNKNOWN),
    ("strict", "known"): (YES, YES, YES, YES, UNKNOWN, NEVER, UNKNOWN),
}


def event(text=SECRET, **fields):
    values = {"kind": "message", "event_key": "1", "platform_id": "100", "sender": "Ana", "sender_id": "5"}
    return Event(**{**values, "text": text, "is_mention": True, **fields})


def store(conn, what, policy=OPEN, *, channel="telegram", at=NOW):
    with transaction(conn):
        return router.route(conn, channel, what, policy, now_ms=at)


def make_chat(conn, chat="100", policy="public", channel="telegram", *, is_group=False):
    with transaction(conn):
        return chats.ensure(conn, channel, chat, is_group=is_group, sender_policy=policy, now_ms=NOW).id


def wire(conn, chat_id, agent="assistant", **changes):
    if agent != "assistant" and not column(conn, "SELECT id FROM agents WHERE id = :agent", agent=agent):
        make_agent(conn, agent)
    with transaction(conn):
        return wirings.connect(conn, chat_id, agent, changes, now_ms=NOW)


def unwire(conn, chat="100", agent="assistant"):
    (chat_id,) = column(conn, "SELECT id FROM chats WHERE platform_id = :chat", chat=chat)
    with transaction(conn):
        assert wirings.disconnect(conn, chat_id, agent)


def become(conn, role, sender="5", channel="telegram", agent="assistant"):
    """The sender is an ``owner``, an ``admin`` of everything, ``scoped``, a ``member``, ``refused``, or a ``user``."""
    with transaction(conn):
        user = users.ensure(conn, channel, sender, name="Ana", now_ms=NOW)
        match role:
            case "owner" | "admin":
                people.grant(conn, user.id, role, None, by="test", now_ms=NOW)
            case "scoped":
                people.grant(conn, user.id, "admin", agent, by="test", now_ms=NOW)
            case "member":
                people.add_member(conn, user.id, agent, by="test", now_ms=NOW)
            case "refused":
                people.refuse(conn, user.id, agent, by="test", now_ms=NOW)
    return user


def asked(conn):
    """The agents that were given a trigger, in order."""
    return column(conn, "SELECT agent FROM messages WHERE trigger = 1 ORDER BY id")


def reasons(conn):
    return rows(conn, "SELECT reason, detail FROM dropped ORDER BY id")


def said(conn):
    return column(conn, "SELECT message FROM responses ORDER BY id")
