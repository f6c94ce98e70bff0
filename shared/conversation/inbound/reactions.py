"""Reactions: context in the session of the message, for the agent that wrote it or was given it; never a turn.

One to the card of a question answers it, where the card says so (``answers.react``). None decides an approval: that
takes a button, which nobody presses by accident.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import apsw

from shared.channels.base import Event
from shared.conversation.access import people
from shared.conversation.inbound import answers
from shared.conversation.routing.apply import Routed, apply
from shared.conversation.routing.effects import Drop, Effect, Isolated, StoreMessage, WithinLimits
from shared.conversation.routing.offers import make_offer
from shared.conversation.routing.quotations import Authors
from shared.conversation.routing.recipients import Recipient
from shared.core import content
from shared.core.content import AboutMessage
from shared.core.policy import AccessPolicy
from shared.db.access import albums as stored_albums
from shared.db.queue import event_keys
from shared.db.roster import wirings
from shared.db.roster.wirings import WiredChat
from shared.db.views import originals

_MOST = 20  # emoji in one event
_LONGEST = 64
_QUOTED = 200


class _Target(NamedTuple):
    """A message as one agent knows it. *message_id*: None where the agent wrote it."""

    text: str
    thread_id: str | None
    private_to: str | None
    message_id: str | None = None


def handle(conn: apsw.Connection, channel: str, event: Event, policy: AccessPolicy, *, now_ms: int) -> Routed | None:
    """Do what the reaction asks for; None if it names no message of a chat."""
    if event.reason is not None or event.platform_id is None or event.platform_message_id is None:
        return None
    counted = apply(conn, channel, event, [WithinLimits()], policy=policy, now_ms=now_ms)
    if counted.dropped is not None:
        return counted
    if not event_keys.add(conn, channel, event.event_key, now_ms=now_ms):
        return Routed(duplicates=1)
    wired_chat = wirings.find_chat(conn, channel, event.platform_id)
    if wired_chat is None or not said(event):
        effects: list[Effect] = [Drop("message_unknown" if said(event) else "empty")]
        return apply(conn, channel, event, effects, policy=policy, now_ms=now_ms)
    ours = originals.response(conn, wired_chat.chat.id, event.platform_message_id)
    if ours is not None:
        answered = answers.react(conn, channel, event, wired_chat.chat, ours.id, now_ms=now_ms)
        if answered is not None:
            return answered
    targets = _targets(conn, channel, event, ours)
    effects = list(_decide(conn, channel, event, wired_chat, targets)) or [Drop("message_unknown")]
    return apply(conn, channel, event, effects, policy=policy, chat=wired_chat.chat, now_ms=now_ms)


def said(event: Event) -> str:
    """What the person did, in words; empty where nothing changed. Pure."""
    done = {"reacted with": event.context.get("added"), "took back": event.context.get("removed")}
    words = [
        f"{verb} {' '.join(str(each)[:_LONGEST] for each in emoji[:_MOST])}"
        for verb, emoji in done.items()
        if isinstance(emoji, list) and emoji
    ]
    return f"({', '.join(words)})" if words else ""


def _targets(
    conn: apsw.Connection, channel: str, event: Event, ours: originals.SaidBefore | None
) -> dict[str, _Target]:
    """The message, for each agent that knows it."""
    if ours is not None:
        private_to = content.receiver(ours.content.get("context", {}))
        return {ours.agent: _Target(ours.message, ours.thread_id, private_to)} if ours.agent is not None else {}
    place, ref = event.platform_id or "", event.platform_message_id or ""
    whole_id = stored_albums.message_of(conn, channel, place, ref) or ref
    found: dict[str, _Target] = {}
    for each in originals.find(conn, channel, place, whole_id):  # newest first: the oldest has the id that is known
        found[each.agent] = _Target(each.message, each.thread_id, content.private_to(each.content), each.message_id)
    return found


def _decide(
    conn: apsw.Connection, channel: str, event: Event, wired_chat: WiredChat, targets: dict[str, _Target]
) -> Iterator[Effect]:
    chat, words = wired_chat.chat, said(event)
    sender = people.standing(conn, channel, event.sender_id)
    for wired in wired_chat.wirings:
        target = targets.get(wired.agent)
        if target is None:
            continue
        told = replace(
            event,
            text=words,
            platform_message_id=None,  # it is no version of the message
            thread_id=target.thread_id,
            is_group=chat.is_group,
            reply_to={"text": target.text[:_QUOTED]},
            context=content.private_context(target.private_to) if target.private_to is not None else {},
        )
        offer = make_offer(told, chat, Recipient(wired, False, words), sender, Authors())
        about: AboutMessage | None = None
        if target.message_id is not None:
            about = {"message_id": target.message_id, "as": "reacts_to"}
        is_allowed = offer.verdict == "allow"
        told_once = Isolated(wired.agent, StoreMessage(offer.recipient, told, about))
        yield told_once if is_allowed else Drop(offer.reason)
