"""Asks an approver about a stranger, a new chat, an agent's action, or a tool that it wants to use.

::

    ask ──> approvals, held ──show──> a card to an approver ──> shared.conversation.inbound.decisions

The text of a held event is stored in ``held`` alone. Strangers can cause only a bounded number of requests: one card a
chat, a few new chats a channel (``new_chats``), so many people of a chat (``new_people``), and so many messages that
wait; an event beyond this last limit is dropped.
``people`` chooses the approver and the chat that reaches them. The caller owns the transaction.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal, NamedTuple

import apsw

from shared.channels.base import Event
from shared.conversation.access import actions, cards, drops, people
from shared.core import content, logs
from shared.core.content import ResponseContent
from shared.core.errors import OF_ONE_ROW, ConfigInvalid, WrongState
from shared.core.policy import AccessPolicy
from shared.db.access import approvals, dropped, held_events, users
from shared.db.access.approvals import OF_STRANGERS, Approval, NewApproval
from shared.db.access.users import User
from shared.db.engine.connection import savepoint
from shared.db.queue import sessions
from shared.db.roster import chats
from shared.db.roster.chats import Chat
from shared.queue import notices

log = logs.get()

MOST_HELD = 10  # messages for one approval
MOST_NEW_PEOPLE = 20  # of one chat
MOST_NEW_CHATS = 100  # of one channel
MOST_CHAT_CARDS = 3  # open cards about new chats of one channel
MOST_ASKED = 20  # pending requests of one session
MOST_BYTES = 100_000  # of arguments
_AGAIN_MS = 60 * 60 * 1000  # after which an approver whom a card did not reach is tried again

Outcome = Literal["held", "again", "too_many_held", "nobody_to_ask"]


class AskResult(NamedTuple):
    """The outcome of an event that needs an approval.

    Attributes:
        outcome: ``held``; ``again`` if it is held already; otherwise the reason to drop it.
        said: whether a card was written, which ``deliver`` is to send.
        is_new: whether the approval is new.
    """

    outcome: Outcome
    approval: Approval | None = None
    said: bool = False
    is_new: bool = False

    @property
    def is_held(self) -> bool:
        """Whether the event waits for the decision."""
        return self.outcome in ("held", "again")


# -- about strangers --------------------------------------------------------------------------------------------------


def user_of(conn: apsw.Connection, channel: str, event: Event, *, now_ms: int) -> User:
    """The event's sender, a row from now on."""
    name = cards.line(event.sender, cards.LONGEST_NAME)
    return users.ensure(conn, channel, event.sender_id or "", name=name, now_ms=now_ms)


def describe(chat: Chat) -> str:
    """The chat, in words for a card."""
    if not chat.is_group:
        return f"a direct chat on {chat.channel}"
    name = f" {cards.line(chat.name, cards.LONGEST_NAME)}" if chat.name else ""
    return f"the group{name} ({chat.channel} {chat.platform_id})"


def ask_and_hold(
    conn: apsw.Connection, asked: Approval | None, new: NewApproval, event: Event, *, policy: AccessPolicy, now_ms: int
) -> AskResult:
    """Hold the event for the approval *asked*, or for a new one."""
    approval, is_new = asked, False
    if approval is None:
        approval, is_new = approvals.request(conn, new, expires_at=now_ms + policy.approval_life_ms, now_ms=now_ms)
    held = held_events.of_approval(conn, approval.id)
    if any(each.event_key == event.event_key for each in held):
        return AskResult("again", approval)
    if len(held) >= MOST_HELD:
        return AskResult("too_many_held", approval)
    chat = chats.get(conn, new.chat_id or 0)
    assert chat is not None  # noqa: S101 - a constraint holds it
    held_events.hold(conn, approval.id, chat.channel, event.event_key, json.dumps(asdict(event)), now_ms=now_ms)
    return AskResult("held", approval, said=is_new and show(conn, approval, now_ms=now_ms), is_new=is_new)


def drop_held(conn: apsw.Connection, approval: Approval, reason: str, *, now_ms: int) -> None:
    """Record why nothing comes of the events that are held for the approval."""
    for each in held_events.of_approval(conn, approval.id):
        try:
            drops.keep(conn, each.channel, event_of(each.event), reason, now_ms=now_ms)
        except OF_ONE_ROW:  # the key is a column of its own
            dropped.record(conn, channel=each.channel, reason=reason, event_key=each.event_key, now_ms=now_ms)


def event_of(text: str) -> Event:
    """The held event, from its JSON.

    An earlier release held a selected quotation in the context, and no id of a forwarded message's first sender.
    """
    fields = json.loads(text)
    quote = fields["context"].pop("quote", None)
    if quote is not None and fields["reply_to"] is not None:
        fields["reply_to"]["text"] = quote
    if "forwarded" not in fields and "forwarded_from" in fields["context"]:
        fields["forwarded"] = {"sender_id": None, "is_self": False}
    tuples = {name: tuple(fields.get(name, ())) for name in ("attachments", "pieces")}
    return Event(**{**fields, **tuples})


# -- for agents -------------------------------------------------------------------------------------------------------


def ask_action(
    conn: apsw.Connection,
    session_id: int,
    agent: str,
    action: str,
    arguments: Mapping[str, Any],
    *,
    policy: AccessPolicy,
    why: str = "",
    now_ms: int,
) -> Approval:
    """Ask for an approval of one of ``actions.ACTIONS``; the session is told the decision.

    Args:
        why: the agent's reason; the card quotes it beside the action, never in its place.

    Raises:
        UnknownName: there is no such action.
        ConfigInvalid: an argument is missing, unknown or wrong; the message says which.
        NotFound, WrongState: the action is impossible now, or the session has too many pending requests.
    """
    wanted = actions.get(action)
    checked = wanted.check(conn, agent, arguments)
    facts = wanted.facts(conn, agent, checked)
    text = json.dumps([action, checked, facts], sort_keys=True)
    if len(text) > MOST_BYTES:
        raise ConfigInvalid(
            f"the arguments have {len(text):,} bytes, too many to read on a card; at most {MOST_BYTES:,} are allowed"
        )
    new = NewApproval(
        "action",
        {"action": action, "arguments": checked, "facts": facts, "is_global": wanted.is_global, "why": why},
        subject=json.dumps([session_id, hashlib.sha256(text.encode()).hexdigest()]),
        agent=agent,
        session_id=session_id,
        title=f"Agent {agent} asks to {wanted.words}",
    )
    pending = approvals.pending_of_session(conn, session_id)
    expires_at = now_ms + policy.approval_life_ms
    with savepoint(conn):  # a refused request leaves no row
        approval, is_new = approvals.request(conn, new, expires_at=expires_at, now_ms=now_ms)
        if is_new and pending >= MOST_ASKED:
            raise WrongState(f"{pending} requests of this session wait for a decision: wait until one is decided")
    if is_new:
        show(conn, approval, now_ms=now_ms)
    return approval


# -- showing ----------------------------------------------------------------------------------------------------------


def show(conn: apsw.Connection, approval: Approval, *, now_ms: int) -> bool:
    """Show the approval to the first approver who can be reached; whether a card was written.

    Without one it stays pending: REST or CLI can decide it, or it is shown later.
    """
    if not _is_room_for(conn, approval):
        return False
    held = [event_of(each.event) for each in held_events.of_approval(conn, approval.id)]
    said = [each.text or content.files_in_words(each.attachments) for each in held]
    buttons = [[label, f"{approval.approval_id}.{choice}"] for choice, label in enumerate(approval.options)]
    asked = _approvers_to_ask(conn, approval, now_ms=now_ms)
    carried: ResponseContent = {"buttons": buttons}
    card = cards.question(approval, said)
    told = people.tell_first(conn, asked, card, carried, page=("approvals", None), now_ms=now_ms)
    if told is None:
        return False
    close_card(conn, approval, "Another approver is asked now.", now_ms=now_ms)
    approvals.set_card(conn, approval.id, approver=told.user.id, card=told.response)
    return True


def _approvers_to_ask(conn: apsw.Connection, approval: Approval, *, now_ms: int) -> list[User]:
    """The approvers to try, in turn: after the one whose card did not arrive, the next; after the last, the first.

    The first is tried again only an hour later: a card may fail to arrive for long, and each card is another row.
    """
    approvers = people.approvers(
        conn, None if is_global(approval) else approval.agent, channel=_channel(conn, approval)
    )
    tried = next((index + 1 for index, user in enumerate(approvers) if user.id == approval.approver), 0)
    card = approvals.card_of(conn, approval)
    is_later = card is None or card.created_at <= now_ms - _AGAIN_MS
    return approvers[tried:] + (approvers[:tried] if is_later else [])


def is_global(approval: Approval) -> bool:
    """Whether only owners and admins of everything may decide it."""
    return approval.agent is None or bool(approval.payload.get("is_global"))


def _is_room_for(conn: apsw.Connection, approval: Approval) -> bool:
    """Whether one more card of its kind may be open."""
    if approval.kind == "chat":
        _, seen = approvals.pending_of_channel(conn, "chat", _channel(conn, approval))
        return seen < MOST_CHAT_CARDS
    return approval.chat_id is None or not approvals.is_card_open(conn, approval.chat_id)


def _channel(conn: apsw.Connection, approval: Approval) -> str:
    """The channel where it comes from: its approvers are asked first."""
    session = sessions.get(conn, approval.session_id) if approval.session_id is not None else None
    chat_id = approval.chat_id or (session.chat_id if session else None)
    chat = chats.get(conn, chat_id) if chat_id is not None else None
    return chat.channel if chat else ""


def show_next(conn: apsw.Connection, ended: Approval, *, now_ms: int) -> bool:
    """Show the next approval that waited for the card of this one to close; whether a card was written."""
    if ended.kind not in OF_STRANGERS:
        return False
    chat_id = ended.chat_id if ended.kind == "sender" else None
    unseen = approvals.unseen(conn, kind=ended.kind, chat_id=chat_id, limit=MOST_NEW_CHATS)
    return any(show(conn, each, now_ms=now_ms) for each in unseen)


def show_pending(conn: apsw.Connection, *, after_id: int = 0, limit: int, now_ms: int) -> tuple[int, int]:
    """Show pending approvals that had no approver to show them to. ``sweep`` calls this, and a grant of a role.

    Returns:
        How many were shown, and the row id to continue after, 0 at the end.
    """
    unseen = approvals.unseen(conn, after_id=after_id, limit=limit)
    count = sum(_show_apart(conn, each, now_ms=now_ms) for each in unseen)
    return count, unseen[-1].id if len(unseen) == limit else 0


def _show_apart(conn: apsw.Connection, approval: Approval, *, now_ms: int) -> bool:
    """As ``show``; one that can't be shown is left out, and is not in the way of the others."""
    try:
        with savepoint(conn):
            return show(conn, approval, now_ms=now_ms)
    except OF_ONE_ROW:
        log.exception("approval.not_shown", approval=approval.approval_id)
        return False


def close_card(
    conn: apsw.Connection, approval: Approval, outcome: str, *, click: Mapping[str, Any] | None = None, now_ms: int
) -> bool:
    """Replace the card with the outcome, without buttons; whether a response was written.

    Args:
        click: the ``context`` of the press that decided; this response acknowledges it.
    """
    card = approvals.card_of(conn, approval)
    chat = chats.get(conn, card.chat_id) if card else None
    if card is None or chat is None or card.status == "dead" or chat.status != "active":
        return False
    carried: ResponseContent = {"edits": approval.card}
    if click is not None:
        carried |= {"click": click, "asked_at": now_ms}
    notices.write(conn, chat, cards.closed(approval, outcome), carried, now_ms=now_ms)
    return True
