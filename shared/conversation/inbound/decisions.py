"""Decides approvals, by a button, REST or CLI. ``undecided`` ends those that nobody decides.

The first decision counts. Its consequences are in the same transaction: the person becomes a member or is refused; the
chat is wired or ignored; the agent's action is done; each held event is stored once or dropped with its reason. Then
the card shows the outcome, the requesting session is informed, and the next card is shown.
"""

import json
import re
from typing import NamedTuple

import apsw

from shared.channels.base import Event
from shared.conversation.access import actions, budget_requests, people, permission_requests, requests, rules
from shared.conversation.access.rules import Standing
from shared.conversation.routing import quotations, router
from shared.conversation.routing.apply import Routed, apply
from shared.conversation.routing.effects import Drop, HoldForSender, Say
from shared.core import content
from shared.core.content import MessageContent
from shared.core.errors import NotAllowed, NotFound, PostroomError, WrongState
from shared.core.policy import AccessPolicy
from shared.db.access import approvals, held_events, permission_prompts, users
from shared.db.access.approvals import Approval
from shared.db.access.held_events import HeldEvent
from shared.db.access.users import User
from shared.db.engine.connection import savepoint
from shared.db.queue import messages, sessions
from shared.db.queue.messages import NewMessage
from shared.db.roster import agents, chats, wirings
from shared.db.roster.wirings import WiredChat
from shared.roster.wirings import connect

_TOKEN = re.compile(r"(approval_[0-9a-z]{8})\.([0-9])")


class Decider(NamedTuple):
    """The approver who decides. *user* None is the operator, who may decide everything.

    Attributes:
        account: where the approver pressed the button; empty where no button was pressed.
    """

    display_name: str
    user: User | None = None
    account: str = ""


OPERATOR = Decider("operator")


class DecisionResult(NamedTuple):
    """The outcome of a decision.

    Attributes:
        sentence: the outcome for people, on one line.
        problem: why the approved change could not be made, or None.
        stored: how many messages were stored, or agents go on; with any, the caller kicks ``dispatch``.
    """

    approval: Approval
    sentence: str
    problem: str | None
    stored: int


class _Consequence(NamedTuple):
    """What a decision changed: a sentence, and how many messages it stored or agents it let continue."""

    words: str = ""
    stored: int = 0


def may_decide(approval: Approval, standing: Standing) -> bool:
    """Whether the person may decide it: an owner, an admin of everything, or an admin of the only agent concerned."""
    if standing.is_owner or standing.is_admin:
        return True
    return not requests.is_global(approval) and approval.agent in standing.admin_of


def decide(
    conn: apsw.Connection,
    approval_id: str,
    choice: int,
    by: Decider,
    *,
    policy: AccessPolicy,
    click: Event | None = None,
    now_ms: int,
) -> DecisionResult:
    """Choose one of the approval's options, and carry it out.

    Args:
        click: the press that decides; the new card acknowledges it.

    Raises:
        NotFound: there is no such approval.
        NotAllowed: the person may not decide it.
        WrongState: it is decided already, its time is over, or there is no such choice.
    """
    asked = approvals.get(conn, approval_id)
    if asked is None:
        raise NotFound(f"there is no approval {approval_id!r}; GET /api/approvals lists them")
    if by.user is not None and not may_decide(asked, people.standing(conn, by.user.channel, by.user.sender_id)):
        raise NotAllowed(_who_may_decide(asked))
    if asked.status == "pending":
        _check_possible(conn, asked, choice)
    key = _key(by.account, click) if by.user is not None and click is not None else None
    decided = approvals.decide(conn, approval_id, choice=choice, decided_by=by.display_name, click=key, now_ms=now_ms)
    done = _settle(conn, decided, by.user, policy=policy, click=click, now_ms=now_ms)
    if decided.user_id is not None:  # their messages may be held in other chats too
        more = reconsider(conn, decided.user_id, by=by.display_name, policy=policy, now_ms=now_ms)
        done = done._replace(stored=done.stored + more)
    return done


def _check_possible(conn: apsw.Connection, asked: Approval, choice: int) -> None:
    """Check that the choice is still possible: the turn is not over, and the chosen agent is not deleted."""
    if asked.kind == permission_prompts.KIND:
        permission_requests.check_is_waited_for(conn, asked)
    offered = asked.payload.get("agents", []) if asked.kind == "chat" else []
    if 0 <= choice < len(offered) and agents.get(conn, str(offered[choice])) is None:
        raise WrongState(f"agent {offered[choice]} was deleted: choose another one")


def reconsider(conn: apsw.Connection, user_id: int, *, by: str, policy: AccessPolicy, now_ms: int) -> int:
    """Decide the pending approvals about a user that an agent knows or refuses now; how many messages were stored."""
    user = users.get(conn, user_id)
    standing = people.standing(conn, user.channel, user.sender_id) if user else rules.STRANGER
    stored = 0
    for pending in approvals.pending_of_user(conn, user_id):
        agent = pending.agent or ""
        is_known, is_refused = standing.knows(agent), agent in standing.refused_by
        if pending.kind == "sender" and (is_known or is_refused) and pending.expires_at > now_ms:
            choice = 0 if is_known else len(pending.options) - 1
            decided = approvals.decide(conn, pending.approval_id, choice=choice, decided_by=by, now_ms=now_ms)
            stored += _settle(conn, decided, None, policy=policy, click=None, now_ms=now_ms).stored
    return stored


def _settle(
    conn: apsw.Connection,
    decided: Approval,
    by: User | None,
    *,
    policy: AccessPolicy,
    click: Event | None,
    now_ms: int,
) -> DecisionResult:
    """Carry out the decision. A change that fails is undone completely and reported; the decision stays."""
    problem, consequence = None, _Consequence()
    answered_there = _answers_where_it_asked(conn, decided)
    try:
        with savepoint(conn):
            consequence = _CONSEQUENCES[decided.kind](conn, decided, by, policy, now_ms)
    except PostroomError as error:
        problem = str(error)
        requests.drop_held(conn, decided, "approval_failed", now_ms=now_ms)
    held_events.forget(conn, decided.id)
    sentence = _sentence(decided, consequence.words, problem)
    acknowledged = click.context if click is not None else None
    requests.close_card(conn, decided, sentence, click=acknowledged, now_ms=now_ms)
    has_left = answered_there and not _answers_where_it_asked(conn, decided)
    told = 0 if has_left else tell_session(conn, decided, sentence, now_ms=now_ms)
    requests.show_next(conn, decided, now_ms=now_ms)
    return DecisionResult(decided, sentence, problem, consequence.stored + told)


def _answers_where_it_asked(conn: apsw.Connection, decided: Approval) -> bool:
    """Whether the requesting session's agent answers in its chat: a message would make it speak there."""
    asked = sessions.get(conn, decided.session_id) if decided.session_id is not None else None
    return asked is not None and wirings.get(conn, asked.chat_id or 0, asked.agent) is not None


def _sentence(decided: Approval, words: str, problem: str | None) -> str:
    yes = {"sender": "Allowed", "chat": "Connected", "tool": "Allowed"}.get(decided.kind, "Approved")
    no = "Ignored" if decided.kind == "chat" else "Refused"
    start = f"{yes if decided.status == 'approved' else no} by {decided.decided_by}."
    if problem is not None:
        return f"{start} But it could not be done: {problem}."
    return f"{start} {words}".strip()


# -- what follows ------------------------------------------------------------------------------------------------------


def _settle_sender(
    conn: apsw.Connection, decided: Approval, by: User | None, policy: AccessPolicy, now_ms: int
) -> _Consequence:
    agent, user_id, name = decided.agent or "", decided.user_id or 0, decided.decided_by or ""
    if decided.status != "approved":
        people.refuse(conn, user_id, agent, by=name, now_ms=now_ms)
        requests.drop_held(conn, decided, "sender_refused", now_ms=now_ms)
        return _Consequence()
    people.add_member(conn, user_id, agent, by=name, now_ms=now_ms)
    if wirings.get(conn, decided.chat_id or 0, agent) is None:
        requests.drop_held(conn, decided, "not_wired", now_ms=now_ms)
        return _Consequence(f"{agent} no longer answers there, so it did not get the held messages.")
    held = held_events.of_approval(conn, decided.id)
    return _Consequence(stored=sum(_store(conn, each, agent, policy, now_ms=now_ms) for each in held))


def _store(conn: apsw.Connection, held: HeldEvent, agent: str, policy: AccessPolicy, *, now_ms: int) -> int:
    """Give a held event to its agent; how many messages that stored. Another delivery may have stored it already."""
    event = requests.event_of(held.event)
    return router.route_held(conn, held.channel, event, agent, policy, now_ms=now_ms).stored


def _settle_chat(
    conn: apsw.Connection, decided: Approval, by: User | None, policy: AccessPolicy, now_ms: int
) -> _Consequence:
    chat_id, name = decided.chat_id or 0, decided.decided_by or ""
    if decided.status != "approved" or decided.choice is None:
        chats.refuse(conn, chat_id, now_ms=now_ms)
        requests.drop_held(conn, decided, "chat_refused", now_ms=now_ms)
        return _Consequence()
    agent = decided.payload["agents"][decided.choice]
    connect(conn, chat_id, agent, now_ms=now_ms)
    if decided.user_id is not None:
        people.add_member(conn, decided.user_id, agent, by=name, now_ms=now_ms)
    stored = sum(
        _replay(conn, each, agent, policy, now_ms=now_ms) for each in held_events.of_approval(conn, decided.id)
    )
    found = agents.get(conn, agent)
    return _Consequence(f"{found.name if found else agent} answers there now.", stored)


def _replay(conn: apsw.Connection, held: HeldEvent, agent: str, policy: AccessPolicy, *, now_ms: int) -> int:
    """Give a new chat's event to its agent, if the sender may talk to it; approvers are asked about other senders."""
    event = requests.event_of(held.event)
    wired_chat = wirings.find_chat(conn, held.channel, event.platform_id or "")
    sender = people.standing(conn, held.channel, event.sender_id)
    sender_policy = wired_chat.chat.sender_policy if wired_chat else "strict"
    verdict, reason = rules.admits(sender_policy, "all", sender, agent, has_id=event.sender_id is not None)
    if verdict == "allow":
        return _store(conn, held, agent, policy, now_ms=now_ms)
    effect = _ask_again(conn, held.channel, event, wired_chat, agent) if verdict == "ask" else Drop(reason)
    apply(conn, held.channel, event, [effect], policy=policy, chat=wired_chat and wired_chat.chat, now_ms=now_ms)
    return 0


def _ask_again(
    conn: apsw.Connection, channel: str, event: Event, wired_chat: WiredChat | None, agent: str
) -> HoldForSender:
    """Hold the event for the agent that was chosen, as that agent may read it."""
    wired = wirings.get(conn, wired_chat.chat.id, agent) if wired_chat is not None else None
    if wired_chat is None or wired is None:
        return HoldForSender(agent, is_told=False)
    heard = quotations.for_wiring(conn, channel, event, wired_chat.chat, wired)
    return HoldForSender(agent, is_told=False, heard=heard)


def _settle_action(
    conn: apsw.Connection, decided: Approval, by: User | None, policy: AccessPolicy, now_ms: int
) -> _Consequence:
    if decided.status != "approved":
        return _Consequence()
    agent, action = decided.agent or "", actions.get(decided.payload["action"])
    wanted = action.check(conn, agent, decided.payload["arguments"])
    now = action.facts(conn, agent, wanted)
    before = decided.payload.get("facts", now)  # a request of an earlier release has none
    if changed := [name for name in {**before, **now} if now.get(name, ...) != before.get(name, ...)]:
        raise WrongState(f"{' and '.join(map(repr, changed))} changed since the card was shown, so nothing was done")
    return _Consequence(action.do(conn, agent, wanted, now_ms=now_ms))


def _settle_budget(
    conn: apsw.Connection, decided: Approval, by: User | None, policy: AccessPolicy, now_ms: int
) -> _Consequence:
    if decided.status != "approved":
        return _Consequence()
    waiting = budget_requests.give(conn, decided, now_ms=now_ms)
    return _Consequence("What waited for it continues." if waiting else "", stored=waiting)


def _settle_tool(
    conn: apsw.Connection, decided: Approval, by: User | None, policy: AccessPolicy, now_ms: int
) -> _Consequence:
    """The waiting turn continues, and answers its program."""
    if decided.status != "approved":
        return _Consequence(stored=1)
    return _Consequence(permission_requests.keep(conn, decided, by, now_ms=now_ms), stored=1)


_CONSEQUENCES = {
    "sender": _settle_sender,
    "chat": _settle_chat,
    "action": _settle_action,
    "budget": _settle_budget,
    "tool": _settle_tool,
}


def tell_session(conn: apsw.Connection, ended: Approval, sentence: str, *, now_ms: int) -> int:
    """Send the outcome to the session that asked, or to the one that replaced it; how many messages were stored.

    A waiting turn informs its program itself.
    """
    if ended.kind == permission_prompts.KIND:
        return 0
    asked = sessions.get(conn, ended.session_id) if ended.session_id is not None else None
    if asked is None or agents.get(conn, asked.agent) is None:
        return 0
    chat = chats.get(conn, asked.chat_id) if asked.chat_id is not None else None
    carried: MessageContent = {"approval": ended.approval_id, "status": ended.status}
    if asked.private_to is not None:
        carried["context"] = content.private_context(asked.private_to)
    session = sessions.ensure(
        conn,
        *(asked.agent, asked.chat_id, asked.thread_id),
        private_to=asked.private_to,
        series_id=asked.series_id,
        now_ms=now_ms,
    )
    new = NewMessage(
        id_prefix="internal",
        channel=chat.channel if chat else "internal",
        chat_id=asked.chat_id,
        platform_id=chat.platform_id if chat else None,
        thread_id=asked.thread_id,
        sender="postroom",
        message=f"{ended.title}: {sentence} ({ended.approval_id})",
        content=content.encode(carried),
        agent=asked.agent,
        session_id=session,
        kind="system",
    )
    return int(messages.enqueue(conn, new, now_ms=now_ms) is not None)


# -- a press of a button -----------------------------------------------------------------------------------------------


def click(conn: apsw.Connection, channel: str, event: Event, *, policy: AccessPolicy, now_ms: int) -> Routed | None:
    """Handle a pressed button; None if no approval has this button. A press that decides nothing is answered.

    A button's token proves nothing: only the person who presses it counts. A redelivered press has no effect.
    """
    token = _TOKEN.fullmatch(event.text)
    approval = approvals.get(conn, token[1]) if token else None
    if token is None or approval is None or int(token[2]) >= len(approval.options):
        return None
    if approval.payload.get("click") == _key(channel, event):
        return Routed()
    user = users.find(conn, channel, event.sender_id) if event.sender_id is not None else None
    try:
        if user is None:
            raise NotAllowed(_who_may_decide(approval))
        by = Decider(user.display_name, user, channel)
        done = decide(conn, approval.approval_id, int(token[2]), by, policy=policy, click=event, now_ms=now_ms)
    except NotAllowed as error:
        refusal = Drop("not_approver", (Say(str(error), click=event.context),))
    except WrongState as error:
        if approval.status == "pending" and approval.expires_at > now_ms:
            refusal = Drop("approval_failed", (Say(f"Not done: {error}.", click=event.context),))
        else:
            refusal = Drop("decided_already", (Say(_too_late(approval), click=event.context),))
    else:
        return Routed(stored=done.stored, said=True)
    return apply(conn, channel, event, [refusal], policy=policy, now_ms=now_ms)


def _key(channel: str, event: Event) -> str:
    return json.dumps([channel, event.event_key])


def _who_may_decide(approval: Approval) -> str:
    of = "" if requests.is_global(approval) else f" of {approval.agent}"
    return f"Only an owner, or an admin{of}, may decide this."


def _too_late(approval: Approval) -> str:
    match approval.status:
        case "approved" | "refused":
            return f"Already {approval.status} by {approval.decided_by}."
        case "expired" if "withdrawn" in approval.payload:
            return f"Too late: {approval.payload['withdrawn']}."
        case "expired":
            return "Too late: nobody answered in time, and it expired."
    return "Too late: the time for it is over."
