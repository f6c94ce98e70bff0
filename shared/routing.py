"""From a platform's event to the sessions that it concerns: policy on rows, decided by pure functions over facts."""

import json
from collections.abc import Sequence
from typing import NamedTuple

import apsw

from shared import wiring
from shared.channels.base import Event
from shared.db import agents, chats, dropped, messages, sessions, wirings
from shared.db.wirings import Wiring


class Engagement(NamedTuple):
    """One agent takes the message: as something to answer, or as context only."""

    wiring: Wiring
    trigger: bool


class Routed(NamedTuple):
    """What became of an event: rows stored, or why not."""

    stored: int = 0
    duplicates: int = 0
    dropped: str | None = None


def engage(event: Event, wired: Sequence[Wiring]) -> list[Engagement]:
    """Which of the chat's agents take the event, most important first."""
    engaged = []
    for each in wired:
        if event.is_mention or not event.is_group:
            engaged.append(Engagement(each, trigger=True))
        elif each.ignored_message_policy == "accumulate":
            engaged.append(Engagement(each, trigger=False))
    return engaged


def thread_of_session(wired: Wiring, event: Event) -> tuple[int | None, str | None]:
    """The chat and thread that the session is keyed by; the sub-threads of a direct chat share one session."""
    match wired.session_mode:
        case "agent-shared":
            return None, None
        case "per-thread" if event.is_group:
            return wired.chat_id, event.thread_id
    return wired.chat_id, None


def store(conn: apsw.Connection, channel: str, event: Event, *, new_chats: str, now_ms: int) -> Routed:
    """Store the event for every agent that takes it, in the caller's transaction; a refusal too, with its reason.

    A redelivered event is stored for the agents that missed it, and for no other.
    """
    reason = _refusal(event)
    if reason is None:
        wired = _wirings(conn, channel, event, new_chats=new_chats, now_ms=now_ms)
        engaged = engage(event, wired)
        if engaged:
            outcomes = [_enqueue(conn, channel, event, each, now_ms=now_ms) for each in engaged]
            return Routed(stored=sum(outcomes), duplicates=outcomes.count(False))
        reason = "not_addressed" if wired else "not_wired"
    word, _, detail = reason.partition(":")
    dropped.record(
        conn,
        channel=channel,
        reason=word,
        detail=detail,
        platform_id=event.platform_id,
        sender_id=event.sender_id,
        event_key=event.event_key,
        now_ms=now_ms,
    )
    return Routed(dropped=reason)


def _refusal(event: Event) -> str | None:
    """Why no agent is asked, whoever is wired; None if one may be."""
    if not event.asks_for_a_turn:
        return event.reason or f"unsupported:{event.kind}"
    if event.platform_id is None:
        return "no_chat"
    if not event.text and not event.attachments:
        return "empty"
    return None


def _wirings(conn: apsw.Connection, channel: str, event: Event, *, new_chats: str, now_ms: int) -> list[Wiring]:
    """The wirings of the event's chat; one that has none gets the default agent, where the operator allows that."""
    platform_id = event.platform_id or ""
    place = wirings.of_place(conn, channel, platform_id)
    wired = place.wirings if place else []
    if wired or new_chats != "wire" or not (event.is_mention or not event.is_group):
        return wired
    agent = agents.default(conn)
    if agent is None:
        return []
    chat = chats.ensure(
        conn,
        channel,
        platform_id,
        is_group=event.is_group,
        name=None if event.is_group else event.sender,
        now_ms=now_ms,
    )
    wiring.connect(conn, chat.id, agent.id, now_ms=now_ms)
    return wirings.of_chat(conn, chat.id)


def _enqueue(conn: apsw.Connection, channel: str, event: Event, engagement: Engagement, *, now_ms: int) -> bool:
    """Whether the message was new to this agent."""
    wired = engagement.wiring
    session = sessions.ensure(conn, wired.agent, *thread_of_session(wired, event), now_ms=now_ms)
    content = {
        "context": event.context,
        "own_answer": event.kind == "command",  # the platform shows a place for the answer to each command
        "reply_to": event.reply_to,
        "edited": event.edited,
        "is_group": event.is_group,
    }
    new = messages.NewMessage(
        id_prefix=channel,
        channel=channel,
        chat_id=wired.chat_id,
        platform_id=event.platform_id,
        thread_id=event.thread_id,
        platform_message_id=event.platform_message_id,
        event_key=event.event_key,
        sender=event.sender,
        sender_id=event.sender_id,
        message=event.text,
        content=json.dumps({key: value for key, value in content.items() if value}),
        files=json.dumps(event.attachments),
        agent=wired.agent,
        session_id=session,
        trigger=engagement.trigger,
    )
    return messages.enqueue(conn, new, now_ms=now_ms) is not None
