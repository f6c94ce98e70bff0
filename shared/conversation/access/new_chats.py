"""Asks which agent is to answer in a chat that has none. A channel has so many places for such chats, and strangers may
write from thousands of them: the newest keep their places, so that a flood shuts nobody out.

A stranger has one place, and the request about a newer chat ends that about an older one. When all places are taken,
the oldest request that no approver is shown gives way. An approver reads once a day that this happens, instead of a
card.
"""

import json

import apsw

from shared.channels.base import Event
from shared.conversation.access import cards, people, places, requests
from shared.conversation.access.requests import MOST_NEW_CHATS, AskResult
from shared.core.policy import AccessPolicy
from shared.db.access import approvals
from shared.db.access.approvals import NewApproval
from shared.db.access.users import User
from shared.db.roster import agents
from shared.db.roster.chats import Chat
from shared.roster import accounts

MOST_AGENTS = 8  # to choose from
IGNORE = "Ignore this chat"

_ASKED_ANEW, _GAVE_WAY = "asked_elsewhere", "gave_way"  # why a held message is dropped


def ask_chat(conn: apsw.Connection, chat: Chat, event: Event, *, policy: AccessPolicy, now_ms: int) -> AskResult:
    """Ask which agent is to answer in a chat that has none, and hold the event until the decision."""
    if event.sender_id is None or not people.approvers(conn, None, channel=chat.channel):
        return AskResult("nobody_to_ask")
    asked = next((each for each in approvals.pending_of_chat(conn, chat.id) if each.kind == "chat"), None)
    user = requests.user_of(conn, chat.channel, event, now_ms=now_ms)
    is_told = asked is None and _make_room(conn, chat.channel, user, now_ms=now_ms)
    result = requests.ask_and_hold(conn, asked, _request(conn, chat, user), event, policy=policy, now_ms=now_ms)
    return result._replace(said=result.said or is_told)


def _request(conn: apsw.Connection, chat: Chat, user: User) -> NewApproval:
    first = accounts.default_agent(conn, chat.channel)
    offered = sorted(agents.every(conn), key=lambda each: each != first)[:MOST_AGENTS]
    return NewApproval(
        "chat",
        {"sender": user.display_name, "agents": [each.id for each in offered]},
        subject=json.dumps([chat.id]),
        chat_id=chat.id,
        user_id=user.id,
        title=f"{user.display_name} writes in {requests.describe(chat)}, where no agent answers yet. Which one is to?",
        options=(*(cards.line(each.name, cards.LONGEST_NAME) for each in offered), IGNORE),
    )


def _make_room(conn: apsw.Connection, channel: str, user: User, *, now_ms: int) -> bool:
    """A place for one more request of *user*; whether an approver was written to."""
    said = False
    for each in approvals.pending_of_user(conn, user.id):
        if each.kind == "chat":
            said |= places.end(conn, each, _ASKED_ANEW, "The same person asks in another chat now.", now_ms=now_ms)
    if approvals.pending_of_channel(conn, "chat", channel)[0] < MOST_NEW_CHATS:
        return said
    oldest = approvals.unseen(conn, kind="chat", channel=channel, limit=1)
    return places.give_way(conn, oldest, _GAVE_WAY, _digest(channel), channel=channel, now_ms=now_ms) or said


def _digest(channel: str) -> str:
    return (
        f"**{MOST_NEW_CHATS} new chats on {cards.escape(channel)} wait for a decision, and more people write.** "
        "Each newer chat takes the place of the oldest that you have not seen; its people may write again.\n\n"
        "All that wait: `emulator approvals list`. To let no new chats ask for a while: `POSTROOM_NEW_CHATS` in "
        "docs/access.md."
    )
