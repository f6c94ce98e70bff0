"""The agents of a chat that take an event, to answer it or as context, and the message that each of them is given."""

import json
from collections.abc import Sequence
from typing import NamedTuple

import apsw

from shared.channels.base import Event
from shared.conversation.routing import addressing, commands, engagement
from shared.conversation.routing.addressing import Addressee, TeamName
from shared.conversation.routing.engagement import EngagementFacts
from shared.core import content, logs
from shared.core.content import AboutMessage, MessageContent
from shared.db.queue import sessions
from shared.db.queue.messages import NewMessage
from shared.db.roster import agents, sticky_threads, teams
from shared.db.roster.wirings import Wiring

log = logs.get()


class Recipient(NamedTuple):
    """A wiring whose agent takes an event.

    Attributes:
        trigger: the agent is to answer; otherwise the event is context.
        text: what the agent is given: without its own name, if the text begins with it, and without the bot's before a
            command.
        sticks: from now on the agent answers in this thread without being mentioned.
    """

    wiring: Wiring
    trigger: bool
    text: str
    sticks: bool = False


class Chosen(NamedTuple):
    """The recipients of an event, highest priority first, and the agents whose wirings are invalid."""

    recipients: list[Recipient]
    failed: list[str]


def choose(event: Event, wired: Sequence[Wiring], addressee: Addressee | None, stuck: frozenset[int]) -> Chosen:
    """The recipients of the event among the wirings of its chat. Pure.

    Args:
        addressee: the agent of this chat that the text names.
        stuck: the ids of the wirings that were mentioned in the event's thread before.
    """
    chosen = Chosen([], [])
    for each in wired:
        try:
            recipient = recipient_of(event, each, addressee, is_stuck=each.id in stuck)
        except ValueError as error:
            log.warning("routing.wiring_failed", agent=each.agent, chat=each.chat_id, reason=str(error))
            chosen.failed.append(each.agent)
        else:
            if recipient is not None:
                chosen.recipients.append(recipient)
    return chosen


def recipient_of(
    event: Event, wired: Wiring, addressee: Addressee | None, *, is_stuck: bool = False
) -> Recipient | None:
    """Whether, and how, the wiring's agent takes the event. Pure.

    Args:
        addressee: the agent of this chat that the text names. Where the event is meant for the bot, no other agent
            answers.

    Raises:
        ValueError: the wiring's mode or pattern is invalid.
    """
    facts = EngagementFacts(event.is_mention, event.is_group, event.text, event.thread_id, is_stuck)
    is_for_one = addressee is not None and facts.is_meant
    if addressee is not None and addressee.agent == wired.agent if is_for_one else engagement.engages(wired, facts):
        return answering(event, wired, addressee, is_stuck=is_stuck)
    return Recipient(wired, False, event.text) if wired.ignored_message_policy == "accumulate" else None


def answering(event: Event, wired: Wiring, addressee: Addressee | None, *, is_stuck: bool = False) -> Recipient:
    """The wiring's agent as one that is to answer. Pure."""
    is_named = addressee is not None and addressee.agent == wired.agent
    rest = addressee.rest if addressee is not None and is_named else ""
    text = rest if is_named and (rest or event.attachments) else commands.behind_mention(event)
    facts = EngagementFacts(event.is_mention, event.is_group, text, event.thread_id, is_stuck)
    return Recipient(wired, True, text, engagement.sticks(wired, facts))


def read_addressee(conn: apsw.Connection, event: Event) -> Addressee | None:
    """The agent that the text begins by naming, whether it is wired in the event's chat or not."""
    if not event.text.startswith("@"):
        return None
    names = {each.id: each.name for each in agents.every(conn)}
    known_teams = {each.id: TeamName(each.name, each.leader) for each in teams.every(conn)}
    find = addressing.find_behind_bot if event.is_group and event.is_mention else addressing.find
    found = find(event.text, names, known_teams)
    return found if found is not None and found.agent in names else None  # a team's leader may be retired


def only_wired(addressee: Addressee | None, wired: Sequence[Wiring]) -> Addressee | None:
    """The addressee, if it is one of these wirings' agents; otherwise the text names nobody. Pure."""
    is_wired = addressee is not None and any(each.agent == addressee.agent for each in wired)
    return addressee if is_wired else None


def read_stuck(conn: apsw.Connection, event: Event, wired: Sequence[Wiring]) -> frozenset[int]:
    """The ids of the wirings that were mentioned in the event's thread before; read only where this decides."""
    if not event.is_group or event.thread_id is None:
        return frozenset()
    sticky = [each.id for each in wired if each.engage_mode == "mention-sticky"]
    return frozenset(id_ for id_ in sticky if sticky_threads.has(conn, id_, event.thread_id))


def session_key(wired: Wiring, event: Event) -> tuple[int | None, str | None]:
    """The chat and thread of the session's key; the sub-threads of a direct chat share one session. Pure.

    What one person of a chat says privately has one session, whatever the mode, with ``Event.private_to`` in its key.
    """
    if event.private_to is not None:
        return wired.chat_id, None
    match wired.session_mode:
        case "agent-shared":
            return None, None
        case "per-thread" if event.is_group:
            return wired.chat_id, event.thread_id
    return wired.chat_id, None


def message(
    conn: apsw.Connection,
    channel: str,
    event: Event,
    recipient: Recipient,
    *,
    about: AboutMessage | None = None,
    now_ms: int,
) -> NewMessage:
    """The message that the agent is given, in its session, which is created if it is the first."""
    wired = recipient.wiring
    kept = content_of(event)
    if about is not None:
        kept["about"] = about
    return NewMessage(
        id_prefix=channel,
        channel=channel,
        chat_id=wired.chat_id,
        platform_id=event.platform_id,
        thread_id=event.thread_id,
        platform_message_id=event.platform_message_id,
        event_key=event.event_key,
        sender=event.sender,
        sender_id=event.sender_id,
        message=recipient.text,
        content=content.encode(kept),
        files=json.dumps(event.attachments) if event.attachments else "[]",
        agent=wired.agent,
        session_id=sessions.ensure(
            conn, wired.agent, *session_key(wired, event), private_to=event.private_to, now_ms=now_ms
        ),
        trigger=recipient.trigger,
    )


def content_of(event: Event) -> MessageContent:
    """What the message's row keeps of the event beside its text and files. Pure."""
    kept = MessageContent()
    if event.context:
        kept["context"] = event.context
    if event.kind in ("command", "modal"):
        kept["own_answer"] = True  # the platform shows a place for the answer to each command
    if event.reply_to:
        kept["reply_to"] = event.reply_to
    if not event.text and event.attachments:
        kept["only_files"] = content.files_in_words(event.attachments)
    if event.pieces:
        kept["pieces"] = list(event.pieces)
    if event.edited:
        kept["edited"] = True
    if event.is_group:
        kept["is_group"] = True
    if event.forwarded is not None and not event.forwarded["is_self"]:
        kept["is_forward"] = True
    return kept
