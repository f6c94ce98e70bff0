"""Approvals: requests that wait for an approver's choice, until an instant.

::

    request ──> pending ──decide───> approved | refused
                   └─expire, withdraw─> expired

Each way out is one UPDATE that expects a pending approval: of two decisions at once, the second finds it decided. What
follows is in the same transaction, and in ``shared.conversation.inbound.decisions``. A unique index allows one pending
approval of a kind and subject.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import apsw

from shared.core import content, ids
from shared.core.content import ApprovalPayload
from shared.core.errors import NotFound, WrongState
from shared.db.engine.connection import rows, scalar
from shared.db.queue import events

Status = Literal["pending", "approved", "refused", "expired"]
YES_OR_NO = ("Approve", "Refuse")
OF_STRANGERS = ("sender", "chat")  # the kinds that a stranger can cause


class NewApproval(NamedTuple):
    """A request for an approval.

    Attributes:
        kind: ``sender``, ``chat``, ``action``, ``tool`` or ``budget``.
        payload: what is done once it is approved.
        subject: what it is about; one pending approval of a kind and subject exists. None: always a new one.
        agent: its admins may decide too, beside the admins of everything.
        options: the choices; the last always refuses.
        session_id: the session that asks, and is told the outcome.
    """

    kind: str
    payload: ApprovalPayload
    subject: str | None = None
    agent: str | None = None
    chat_id: int | None = None
    user_id: int | None = None
    session_id: int | None = None
    title: str = ""
    options: tuple[str, ...] = YES_OR_NO


class Approval(NamedTuple):
    """A row of ``approvals``. *choice* is an index of *options*; *approver* is the user who was shown the *card*."""

    id: int
    approval_id: str
    kind: str
    subject: str | None
    agent: str | None
    chat_id: int | None
    user_id: int | None
    session_id: int | None
    title: str
    payload: ApprovalPayload
    options: tuple[str, ...]
    status: str
    choice: int | None
    decided_by: str | None
    approver: int | None
    card: int | None
    expires_at: int
    created_at: int
    updated_at: int


class Card(NamedTuple):
    """The response that shows an approval: its chat, its status, and when it was created."""

    chat_id: int
    status: str
    created_at: int


_SELECT = """
    SELECT a.id, a.approval_id, a.kind, a.subject, a.agent, a.chat_id, a.user_id, a.session_id, a.title, a.payload,
           a.options, a.status, a.choice, a.decided_by, a.approver, a.card, a.expires_at, a.created_at, a.updated_at
      FROM approvals a
"""


def _approval(row: tuple[Any, ...]) -> Approval:
    values = dict(zip(Approval._fields, row, strict=True))
    values["payload"] = content.readable(values["payload"])
    values["options"] = tuple(content.readable_list(values["options"]))
    return Approval(**values)


def _read(conn: apsw.Connection, sql: str, parameters: Mapping[str, Any]) -> list[Approval]:
    return [_approval(row) for row in rows(conn, sql, parameters)]


def request(conn: apsw.Connection, new: NewApproval, *, expires_at: int, now_ms: int) -> tuple[Approval, bool]:
    """Find or create the pending approval of this kind and subject; and whether it is new."""
    approval_id = ids.new("approval")
    given = {
        **new._asdict(),
        "approval_id": approval_id,
        "payload": content.encode(new.payload),
        "options": json.dumps(new.options),
        "expires_at": expires_at,
        "now": now_ms,
    }
    conn.execute(
        """
        INSERT INTO approvals (approval_id, kind, subject, agent, chat_id, user_id, session_id, title, payload, options,
                               expires_at, created_at, updated_at)
        VALUES (:approval_id, :kind, :subject, :agent, :chat_id, :user_id, :session_id, :title, :payload, :options,
                :expires_at, :now, :now)
        ON CONFLICT (kind, subject) WHERE status = 'pending' AND subject IS NOT NULL DO NOTHING
        """,
        given,
    )
    if conn.changes():
        made = _must_get(conn, approval_id)
        _tell(conn, "approval_requested", made, now_ms=now_ms)
        return made, True
    known = "SELECT approval_id FROM approvals WHERE kind = :kind AND subject = :subject AND status = 'pending'"
    pending: str = scalar(conn, known, given)
    return _must_get(conn, pending), False


def get(conn: apsw.Connection, approval_id: str) -> Approval | None:
    """The approval, or None."""
    found = _read(conn, _SELECT + " WHERE a.approval_id = :id", {"id": approval_id})
    return found[0] if found else None


def _must_get(conn: apsw.Connection, approval_id: str) -> Approval:
    found = get(conn, approval_id)
    if found is None:
        raise NotFound(f"no approval {approval_id!r}")
    return found


def decide(
    conn: apsw.Connection,
    approval_id: str,
    *,
    choice: int,
    decided_by: str | None,
    click: str | None = None,
    now_ms: int,
) -> Approval:
    """Decide the approval; the row as it is now. The last option refuses, every other one approves.

    Args:
        click: the key of the event that decides, kept in the payload, so that its redelivery is recognised.

    Raises:
        NotFound: there is no such approval.
        WrongState: it is decided already, its time is over, or there is no such choice.
    """
    found = rows(
        conn,
        """
        UPDATE approvals
           SET status = CASE WHEN :choice < json_array_length(options) - 1 THEN 'approved' ELSE 'refused' END,
               choice = :choice, decided_by = :decided_by, updated_at = :now,
               payload = CASE WHEN :click IS NULL THEN payload ELSE json_set(payload, '$.click', :click) END
         WHERE approval_id = :id AND status = 'pending' AND expires_at > :now
           AND :choice >= 0 AND :choice < json_array_length(options)
        RETURNING approval_id
        """,
        {"choice": choice, "decided_by": decided_by, "click": click, "now": now_ms, "id": approval_id},
    )
    if not found:
        known = _must_get(conn, approval_id)
        if known.status != "pending":
            by = f", by {known.decided_by}" if known.decided_by else ""
            raise WrongState(f"approval {approval_id} is {known.status} already{by}")
        if known.expires_at <= now_ms:
            raise WrongState(f"approval {approval_id} has expired")
        raise WrongState(f"approval {approval_id} has no choice {choice}: choose 0 to {len(known.options) - 1}")
    decided = _must_get(conn, approval_id)
    _tell(conn, f"approval_{decided.status}", decided, now_ms=now_ms)
    return decided


EXPIRE = """
    UPDATE approvals
       SET status = 'expired', updated_at = :now
     WHERE id IN (SELECT id
                    FROM approvals
                   WHERE status = 'pending' AND expires_at <= :now
                   ORDER BY expires_at
                   LIMIT :limit)
    RETURNING approval_id
"""


def expire(conn: apsw.Connection, *, limit: int, now_ms: int) -> list[Approval]:
    """Expire up to *limit* approvals whose time is over, oldest first; returns them."""
    ended = [approval_id for (approval_id,) in rows(conn, EXPIRE, {"now": now_ms, "limit": limit})]
    found = sorted((_must_get(conn, each) for each in ended), key=lambda each: (each.expires_at, each.id))
    for each in found:
        _tell(conn, "approval_expired", each, now_ms=now_ms)
    return found


WITHDRAW = """
    UPDATE approvals
       SET status = 'expired', payload = json_set(payload, '$.withdrawn', :why), updated_at = :now
     WHERE id IN (SELECT id
                    FROM approvals INDEXED BY approvals_pending
                   WHERE status = 'pending'
                     AND (agent = :agent OR chat_id = :chat OR (kind = 'budget' AND payload ->> 'budget' = :budget)
                          OR id = :approval))
    RETURNING approval_id
"""


def withdraw(
    conn: apsw.Connection,
    *,
    agent: str | None = None,
    chat_id: int | None = None,
    budget: int | None = None,
    approval: int | None = None,
    why: str,
    now_ms: int,
) -> list[Approval]:
    """Expire this pending approval, or those of this agent, or about this chat or budget; returns them, oldest first.

    Args:
        why: kept in the payload, as ``withdrawn``.
    """
    given = {"agent": agent, "chat": chat_id, "budget": budget, "approval": approval, "why": why, "now": now_ms}
    ended = [approval_id for (approval_id,) in rows(conn, WITHDRAW, given)]
    found = sorted((_must_get(conn, each) for each in ended), key=lambda each: each.id)
    for each in found:
        _tell(conn, "approval_expired", each, now_ms=now_ms)
    return found


def set_card(conn: apsw.Connection, id_: int, *, approver: int, card: int) -> None:
    """*approver* is shown this card, a row of ``responses``, while the approval is pending."""
    conn.execute(
        "UPDATE approvals SET approver = :approver, card = :card WHERE id = :id AND status = 'pending'",
        {"approver": approver, "card": card, "id": id_},
    )


def card_of(conn: apsw.Connection, approval: Approval) -> Card | None:
    """The card that shows the approval, or None. It is not pruned while the approval is pending."""
    found = rows(
        conn,
        "SELECT chat_id, status, created_at FROM responses WHERE id = :card AND status <> 'deleted'",
        {"card": approval.card},
    )
    return Card._make(found[0]) if found else None


# -- looking ----------------------------------------------------------------------------------------------------------


# Few approvals are pending, and many have ended: partial indexes keep these reads to the pending ones.
PENDING_OF_CHAT = (
    _SELECT + " INDEXED BY approvals_of_chat WHERE a.status = 'pending' AND a.chat_id = :chat ORDER BY a.id"
)
PENDING_OF_USER = (
    _SELECT + " INDEXED BY approvals_pending WHERE a.status = 'pending' AND a.user_id = :user ORDER BY a.id"
)

# The card arrived or is on its way, and its approver can still decide: the bot is not blocked, and the role is there.
_SEEN = """
    EXISTS (SELECT 1
              FROM responses r
              JOIN chats t ON t.id = r.chat_id
             WHERE r.id = a.card AND r.status <> 'dead' AND r.status <> 'deleted' AND t.status = 'active')
    AND EXISTS (SELECT 1
                  FROM user_roles o
                 WHERE o.user_id = a.approver
                   AND (o.agent IS NULL OR (o.agent = a.agent AND ifnull(a.payload ->> '$.is_global', 0) = 0)))
"""

# Pending approvals that no approver is shown.
UNSEEN = (
    _SELECT
    + f"""
      INDEXED BY approvals_pending
     WHERE a.status = 'pending' AND a.id > :after AND NOT ({_SEEN})
       AND (:kind IS NULL OR a.kind = :kind) AND (:chat IS NULL OR a.chat_id = :chat)
       AND (:channel IS NULL OR EXISTS (SELECT 1 FROM chats c WHERE c.id = a.chat_id AND c.channel = :channel))
     ORDER BY a.id
     LIMIT :limit
    """
)


def pending_of_chat(conn: apsw.Connection, chat_id: int) -> list[Approval]:
    """The pending approvals about this chat, oldest first."""
    return _read(conn, PENDING_OF_CHAT, {"chat": chat_id})


def pending_of_user(conn: apsw.Connection, user_id: int) -> list[Approval]:
    """The pending approvals about this user, in every chat, oldest first."""
    return _read(conn, PENDING_OF_USER, {"user": user_id})


def unseen(
    conn: apsw.Connection,
    *,
    kind: str | None = None,
    chat_id: int | None = None,
    channel: str | None = None,
    after_id: int = 0,
    limit: int,
) -> list[Approval]:
    """The pending approvals that no approver is shown, of this kind, chat and channel where given; oldest first."""
    given = {"kind": kind, "chat": chat_id, "channel": channel, "after": after_id, "limit": limit}
    return _read(conn, UNSEEN, given)


OF_SESSION = """
    SELECT count(*)
      FROM approvals INDEXED BY approvals_pending
     WHERE status = 'pending' AND session_id = :session
"""
OF_CHANNEL = f"""
    SELECT count(*), ifnull(sum({_SEEN}), 0)
      FROM approvals a INDEXED BY approvals_pending
     CROSS JOIN chats c ON c.id = a.chat_id
     WHERE a.status = 'pending' AND a.kind = :kind AND c.channel = :channel
"""
CARD_OPEN = f"""
    SELECT EXISTS (SELECT 1
                     FROM approvals a INDEXED BY approvals_of_chat
                    WHERE a.status = 'pending' AND a.chat_id = :chat AND {_SEEN})
"""


def pending_of_session(conn: apsw.Connection, session_id: int) -> int:
    """How many requests of this session are pending."""
    count: int = scalar(conn, OF_SESSION, {"session": session_id})
    return count


def pending_of_channel(conn: apsw.Connection, kind: str, channel: str) -> tuple[int, int]:
    """How many of this kind are pending about chats of *channel*, and how many of them an approver is shown."""
    ((count, seen),) = rows(conn, OF_CHANNEL, {"kind": kind, "channel": channel})
    return count, seen


def is_card_open(conn: apsw.Connection, chat_id: int) -> bool:
    """Whether an approver is shown a pending approval about this chat."""
    return bool(scalar(conn, CARD_OPEN, {"chat": chat_id}))


# Few approvals are kept, and a person who answers a card is rare: no index is worth its writes.
IS_CARD = """
    SELECT EXISTS (SELECT 1
                     FROM approvals a
                    CROSS JOIN responses r
                    WHERE r.id = a.card AND r.chat_id = :chat
                      AND EXISTS (SELECT 1 FROM json_each(r.parts) WHERE value = :message))
"""


def is_card(conn: apsw.Connection, chat_id: int, platform_message_id: str) -> bool:
    """Whether the platform's message with this id shows, or showed, an approval in the chat."""
    return bool(scalar(conn, IS_CARD, {"chat": chat_id, "message": platform_message_id}))


PRUNE = """
    DELETE FROM approvals
     WHERE id IN (SELECT id
                    FROM approvals
                   WHERE status <> 'pending' AND updated_at < :cutoff
                   ORDER BY updated_at
                   LIMIT :limit)
"""


def prune(conn: apsw.Connection, *, older_than_ms: int, limit: int) -> int:
    """Delete up to *limit* approvals that ended before *older_than_ms*; how many."""
    conn.execute(PRUNE, {"cutoff": older_than_ms, "limit": limit})
    return conn.changes()


def _tell(conn: apsw.Connection, type_: str, of: Approval, *, now_ms: int) -> None:
    events.append(
        conn,
        type_,
        now_ms=now_ms,
        agent=of.agent,
        session_id=of.session_id,
        data={"approval": of.approval_id, "kind": of.kind},
    )
