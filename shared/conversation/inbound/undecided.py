"""Ends approvals that nobody decides: their time is over, or what they are about is gone."""

from collections.abc import Sequence

import apsw

from shared.conversation.access import requests
from shared.conversation.inbound import decisions
from shared.core import logs
from shared.core.errors import OF_ONE_ROW
from shared.db.access import approvals, held_events
from shared.db.access.approvals import Approval
from shared.db.engine.connection import savepoint
from shared.db.roster import chats

log = logs.get()


def expire(conn: apsw.Connection, *, limit: int, now_ms: int) -> int:
    """Expire up to *limit* approvals whose time is over, and say so on the card and to the session; how many."""
    ended = approvals.expire(conn, limit=limit, now_ms=now_ms)
    for each in ended:
        if each.kind == "chat" and each.chat_id is not None:
            chats.refuse(conn, each.chat_id, now_ms=now_ms)
    _end(conn, ended, "approval_expired", "Expired: nobody answered.", now_ms=now_ms)
    return len(ended)


def withdraw_agent(conn: apsw.Connection, agent: str, *, now_ms: int) -> None:
    """Withdraw the pending approvals of an agent that is deleted or retired; their cards say so."""
    why = f"agent {agent} was deleted"
    ended = approvals.withdraw(conn, agent=agent, why=why, now_ms=now_ms)
    _end(conn, ended, "not_wired", f"Withdrawn: {why}.", now_ms=now_ms)


def withdraw_chat(conn: apsw.Connection, chat_id: int, *, now_ms: int) -> None:
    """Withdraw the pending approvals about a chat that is deleted or retired; their cards say so."""
    why = f"chat {chat_id} was deleted"
    ended = approvals.withdraw(conn, chat_id=chat_id, why=why, now_ms=now_ms)
    _end(conn, ended, "not_wired", f"Withdrawn: {why}.", now_ms=now_ms)


def withdraw_budget(conn: apsw.Connection, budget_id: int, why: str, *, now_ms: int) -> None:
    """Withdraw the question about a budget that was changed or deleted; its card says *why*."""
    ended = approvals.withdraw(conn, budget=budget_id, why=why, now_ms=now_ms)
    _end(conn, ended, "approval_expired", f"Withdrawn: {why}.", now_ms=now_ms)


def _end(conn: apsw.Connection, ended: Sequence[Approval], reason: str, sentence: str, *, now_ms: int) -> None:
    """The consequences without a decision: held events are dropped for *reason*, and the session is told *sentence*."""
    for each in ended:
        try:
            with savepoint(conn):
                requests.drop_held(conn, each, reason, now_ms=now_ms)
                requests.close_card(conn, each, sentence, now_ms=now_ms)
                decisions.tell_session(conn, each, sentence, now_ms=now_ms)
        except OF_ONE_ROW:  # it has ended all the same, and so have the others
            log.exception("approval.not_told", approval=each.approval_id)
        held_events.forget(conn, each.id)
    for each in ended:
        requests.show_next(conn, each, now_ms=now_ms)
