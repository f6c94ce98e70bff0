"""Asks an approver whether the program of a running turn may do what it wants to, and follows up on the answer.

::

    ask ──> approvals ──show──> a card ──yes──> take: the turn tells its program
                 └── the turn ends before that ──> end: the card says that nothing was done

A yes is for the turn, the call and the arguments on the card alone. "Always allow this here" also keeps a permission.
"""

import json

import apsw

from shared.agents.access import PermissionAsked
from shared.conversation.access import requests
from shared.core.content import ApprovalPayload
from shared.core.errors import WrongState
from shared.db.access import approvals, permission_prompts, permissions
from shared.db.access.approvals import Approval, NewApproval
from shared.db.access.permission_prompts import KIND
from shared.db.access.users import User
from shared.db.queue import claims
from shared.db.queue.claims import Claim
from shared.db.roster import chats

ONCE, ALWAYS, NO = "Allow once", "Always allow this here", "Refuse"
MOST_CHARACTERS = 12_000  # of arguments: a card shows all of them, or nobody is asked
OVER = "its turn is over, and nothing was done"
_LOST_MS = 24 * 60 * 60 * 1000  # in which a yes that no turn took is still told


def ask(conn: apsw.Connection, claim: Claim, asked: PermissionAsked, *, expires_at: int, now_ms: int) -> Approval:
    """Ask for a yes, with a card that shows all arguments.

    Raises:
        WrongState: a card can't show them, too many requests of the session wait, or one of the turn has the name of
            this call and asks for something else; the message is for the model.
    """
    shown = len(json.dumps([asked.tool, asked.arguments, asked.covers], ensure_ascii=False))
    if shown > MOST_CHARACTERS:
        raise WrongState(
            f"nobody was asked, because the arguments have {shown:,} characters, and an approver reads at most "
            f"{MOST_CHARACTERS:,}: do it in smaller steps"
        )
    if approvals.pending_of_session(conn, claim.session_id) >= requests.MOST_ASKED:
        raise WrongState("nobody was asked, because too many requests of this conversation wait for a decision")
    payload: ApprovalPayload = {"tool": asked.tool, "arguments": dict(asked.arguments), "turn": claim.token}
    if asked.why:
        payload["why"] = asked.why
    if asked.covers is not None:
        payload["covers"] = dict(asked.covers)
        payload["covers_chat"] = claim.asked[0].chat_id
    new = NewApproval(
        KIND,
        payload,
        subject=json.dumps([claim.token, asked.call]),
        agent=claim.agent,
        session_id=claim.session_id,
        title=f"Agent {claim.agent} asks to use {asked.tool}, for {_place(conn, claim)}",
        options=(ONCE, NO) if asked.covers is None else (ONCE, ALWAYS, NO),
    )
    approval, is_new = approvals.request(conn, new, expires_at=expires_at, now_ms=now_ms)
    if is_new:
        requests.show(conn, approval, now_ms=now_ms)
    elif (approval.payload["tool"], approval.payload["arguments"]) != (payload["tool"], payload["arguments"]):
        raise WrongState("nobody was asked: the turn asks for something else under the name of this call already")
    return approval


def _place(conn: apsw.Connection, claim: Claim) -> str:
    chat = chats.get(conn, claim.asked[0].chat_id or 0)
    return requests.describe(chat) if chat is not None else "a message without a chat"


def check_is_waited_for(conn: apsw.Connection, asked: Approval) -> None:
    """Check that the turn that asked still runs: a yes to another one would allow nothing.

    Raises:
        WrongState: it is over.
    """
    if not _is_running(conn, asked):
        raise WrongState(OVER)


def _is_running(conn: apsw.Connection, asked: Approval) -> bool:
    turn = asked.payload.get("turn", "")
    return claims.of_turn(conn, asked.agent or "", asked.session_id or 0, turn) is not None


def keep(conn: apsw.Connection, allowed: Approval, by: User | None, *, now_ms: int) -> str:
    """Keep the permission where the approver chose it; a sentence about it, or an empty text."""
    if allowed.choice is None or allowed.options[allowed.choice] != ALWAYS:
        return ""
    kept = permissions.put(
        conn,
        agent=allowed.agent or "",
        chat_id=allowed.payload["covers_chat"],
        tool=allowed.payload["tool"],
        arguments=allowed.payload["covers"],
        granted_by=by.id if by is not None else None,
        granted_name=allowed.decided_by or "",
        now_ms=now_ms,
    )
    return f"From now on it is allowed here without a question: `emulator permissions revoke {kept}` ends that."


def settled(conn: apsw.Connection, approval_id: str, *, now_ms: int) -> Approval | None:
    """The prompt, once it has an end; a yes is taken by this, and its time may end by it. None: it is pending."""
    asked = approvals.get(conn, approval_id)
    if asked is not None and asked.status == "pending" and asked.expires_at <= now_ms:
        end(conn, approval_id, "nobody decided in time, and nothing was done", now_ms=now_ms)
        asked = approvals.get(conn, approval_id)
    if asked is None or asked.status == "pending":
        return None
    if asked.status == "approved" and not permission_prompts.take(conn, approval_id, now_ms=now_ms):
        raise WrongState("the yes was for one call, and was used already")
    return asked


def end(conn: apsw.Connection, approval_id: str, why: str, *, now_ms: int) -> bool:
    """Nobody waits for the answer any more, and the card says so; whether it had to be said."""
    asked = approvals.get(conn, approval_id)
    if asked is None:
        return False
    if asked.status == "pending":
        approvals.withdraw(conn, approval=asked.id, why=why, now_ms=now_ms)
        requests.close_card(conn, asked, f"Too late: {why}.", now_ms=now_ms)
        return True
    if asked.status == "approved" and permission_prompts.lose(conn, approval_id, now_ms=now_ms):
        requests.close_card(conn, asked, f"Allowed by {asked.decided_by}, but {why}.", now_ms=now_ms)
        return True
    return False


def end_lost(conn: apsw.Connection, *, now_ms: int) -> int:
    """End the prompts of turns that are over, also those of processes that were killed; how many cards say so."""
    found = (approvals.get(conn, each) for each in permission_prompts.unsettled(conn, since_ms=now_ms - _LOST_MS))
    lost = [each for each in found if each is not None and not _is_running(conn, each)]
    return sum(end(conn, each.approval_id, OVER, now_ms=now_ms) for each in lost)
