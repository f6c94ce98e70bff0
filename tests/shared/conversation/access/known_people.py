"""People that a test knows, and roles that it grants."""

from shared.conversation.access import people
from shared.db.access import users
from shared.db.engine.connection import transaction
from tests.support import NOW


def person(conn, sender_id="5", channel="telegram", name="Ana"):
    with transaction(conn):
        return users.ensure(conn, channel, sender_id, name=name, now_ms=NOW)


def grant(conn, user, role="owner", agent=None, now_ms=NOW):
    with transaction(conn):
        return people.grant(conn, user.id, role, agent, by="operator", now_ms=now_ms)
