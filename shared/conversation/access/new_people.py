"""Asks whether a stranger may talk to an agent. A chat has so many places for such people, and a group may have
thousands: the newest keep their places, so that a flood shuts nobody out.

A stranger has one place in a chat, for however many agents. When all places are taken, the person who has waited
longest, and of whom no approver is shown a card, gives way. An approver reads once a day that this happens, instead of
a card.
"""

import json

import apsw

from shared.channels.base import Event
from shared.conversation.access import cards, places, requests
from shared.conversation.access.requests import MOST_NEW_PEOPLE, AskResult
from shared.core.policy import AccessPolicy
from shared.db.access import approvals
from shared.db.access.approvals import Approval, NewApproval
from shared.db.roster import agents
from shared.db.roster.chats import Chat

ALLOW_OR_REFUSE = ("Allow", "Refuse")

_GAVE_WAY = "gave_way_in_chat"  # why a held message is dropped
_ALL = 1000  # more requests than the people of a chat may have


def ask_sender(
    conn: apsw.Connection, chat: Chat, event: Event, agent: str, *, policy: AccessPolicy, now_ms: int
) -> AskResult:
    """Ask whether the event's sender may talk to *agent*, and hold the event until the decision."""
    if event.sender_id is None:
        return AskResult("nobody_to_ask")
    user = requests.user_of(conn, chat.channel, event, now_ms=now_ms)
    pending = [each for each in approvals.pending_of_chat(conn, chat.id) if each.kind == "sender"]
    asked = next((each for each in pending if (each.agent, each.user_id) == (agent, user.id)), None)
    waiting = {each.user_id for each in pending}
    is_full = user.id not in waiting and len(waiting) >= MOST_NEW_PEOPLE
    is_told = is_full and _make_room(conn, chat, pending, agent, now_ms=now_ms)
    new = NewApproval(
        "sender",
        {"sender": user.display_name},
        subject=json.dumps([agent, chat.id, user.id]),
        agent=agent,
        chat_id=chat.id,
        user_id=user.id,
        title=f"{user.display_name} wants to talk to {_name(conn, agent)} in {requests.describe(chat)}",
        options=ALLOW_OR_REFUSE,
    )
    result = requests.ask_and_hold(conn, asked, new, event, policy=policy, now_ms=now_ms)
    return result._replace(said=result.said or is_told)


def _make_room(conn: apsw.Connection, chat: Chat, pending: list[Approval], agent: str, *, now_ms: int) -> bool:
    """The place of the one who has waited longest; whether an approver was written to."""
    unseen = approvals.unseen(conn, kind="sender", chat_id=chat.id, limit=_ALL)
    seen = {each.user_id for each in pending if each not in unseen}
    first = next((each.user_id for each in unseen if each.user_id not in seen), None)
    oldest = [each for each in unseen if each.user_id == first]
    digest = _digest(chat)
    return places.give_way(conn, oldest, _GAVE_WAY, digest, channel=chat.channel, agent=agent, now_ms=now_ms)


def _digest(chat: Chat) -> str:
    return (
        f"**{MOST_NEW_PEOPLE} people of {cards.escape(requests.describe(chat))} wait for a decision, and more write.** "
        "Each newer one takes the place of the oldest whose card you have not seen; that person may write again.\n\n"
        "All that wait: `emulator approvals list`. To let nobody new ask in this chat: `strict` in docs/access.md."
    )


def _name(conn: apsw.Connection, agent: str) -> str:
    found = agents.get(conn, agent)
    return cards.line(found.name, cards.LONGEST_NAME) if found else agent
