"""Who of a chat's agents takes an event, and as what: to answer, or as context; and the message that they are given."""

import json
from typing import NamedTuple

import apsw

from shared.access import people, rules
from shared.channels.base import Event
from shared.core import content, logs
from shared.core.content import MessageContent
from shared.core.policy import Policy
from shared.db.queue import sessions
from shared.db.queue.messages import NewMessage
from shared.db.roster import agents, sticky_threads, teams
from shared.db.roster.wirings import Place, Wiring
from shared.roster import wirings as wiring
from shared.roster.wirings import WiringChange
from shared.routing import addressing, engagement
from shared.routing.addressing import Named, Team
from shared.routing.engagement import Facts

log = logs.get()

_AFTER_THE_OTHERS = -1  # the priority of an agent that is there only for those who name it


class Taker(NamedTuple):
    """A wiring that takes an event.

    Attributes:
        trigger: it is to answer; else the event is context.
        text: what it is given: without its own name, if that stood before it.
        sticks: from now on it answers in this thread without being named.
    """

    wiring: Wiring
    trigger: bool
    text: str
    sticks: bool = False


def of(
    conn: apsw.Connection, event: Event, place: Place, policy: Policy, *, now_ms: int
) -> tuple[list[Taker], list[str]]:
    """Who takes the event, the most important first; and the agents whose wirings could not say."""
    if policy.new_chats == "wire" and not event.is_group:
        place = _with_the_named(conn, event, place, now_ms=now_ms)
    meant = named(conn, event, place)
    found, failed = [], []
    for each in place.wirings:
        try:
            taker = decide(event, each, meant, is_stuck=_is_stuck(conn, each, event))
        except ValueError as error:
            log.warning("routing.wiring_failed", agent=each.agent, chat=each.chat_id, reason=str(error))
            failed.append(each.agent)
        else:
            found += [taker] if taker is not None else []
    return found, failed


def decide(event: Event, wired: Wiring, named: Named | None, *, is_stuck: bool = False) -> Taker | None:
    """Whether, and how, a wiring takes the event. Pure.

    Args:
        named: the agent of this chat that the text names. Where the bot is meant, no other is asked.

    Raises:
        ValueError: the wiring's mode or pattern can be none.
    """
    facts = Facts(event.is_mention, event.is_group, event.text, event.thread_id, is_stuck)
    is_for_one = named is not None and facts.is_meant
    if named is not None and named.agent == wired.agent if is_for_one else engagement.engages(wired, facts):
        return as_asked(event, wired, named, is_stuck=is_stuck)
    return Taker(wired, False, event.text) if wired.ignored_message_policy == "accumulate" else None


def as_asked(event: Event, wired: Wiring, named: Named | None, *, is_stuck: bool = False) -> Taker:
    """The wiring as one that is to answer. Pure."""
    is_named = named is not None and named.agent == wired.agent
    rest = named.rest if named is not None and is_named else ""
    text = rest if is_named and (rest or event.attachments) else event.text
    facts = Facts(event.is_mention, event.is_group, text, event.thread_id, is_stuck)
    return Taker(wired, True, text, engagement.sticks(wired, facts))


def named(conn: apsw.Connection, event: Event, place: Place) -> Named | None:
    """The agent of this chat that the text names, if it does."""
    found = _named_anywhere(conn, event)
    is_here = found is not None and any(each.agent == found.agent for each in place.wirings)
    return found if is_here else None


def _named_anywhere(conn: apsw.Connection, event: Event) -> Named | None:
    if not event.text.startswith("@"):
        return None
    names = {each.id: each.name for each in agents.every(conn)}
    known_teams = {each.id: Team(each.name, each.leader) for each in teams.every(conn)}
    find = addressing.named_after_us if event.is_group and event.is_mention else addressing.named
    found = find(event.text, names, known_teams)
    return found if found is not None and found.agent in names else None  # a team may still name who is gone


def _with_the_named(conn: apsw.Connection, event: Event, place: Place, *, now_ms: int) -> Place:
    """Where anybody may talk to any agent, the one that is named comes into a direct chat, for those who name it.

    Not where the chat is not open to them, or the agent refuses them.
    """
    found = _named_anywhere(conn, event)
    if found is None or any(each.agent == found.agent for each in place.wirings):
        return place
    standing = people.standing(conn, place.chat.channel, event.sender_id)
    if rules.admits(place.chat.sender_policy, "all", standing, found.agent)[0] != "allow":
        return place
    only_when_named: WiringChange = {
        "engage_mode": "pattern",
        "engage_pattern": addressing.own_prefix(found.agent),
        "priority": _AFTER_THE_OTHERS,
    }
    made = wiring.connect(conn, place.chat.id, found.agent, only_when_named, now_ms=now_ms)
    return place._replace(wirings=[*place.wirings, made])


def _is_stuck(conn: apsw.Connection, wired: Wiring, event: Event) -> bool:
    """Asked only where the answer counts."""
    is_thread = wired.engage_mode == "mention-sticky" and event.is_group and event.thread_id is not None
    return is_thread and sticky_threads.has(conn, wired.id, event.thread_id or "")


def key_of_session(wired: Wiring, event: Event) -> tuple[int | None, str | None]:
    """The chat and thread that the session is keyed by; the sub-threads of a direct chat share one session. Pure."""
    match wired.session_mode:
        case "agent-shared":
            return None, None
        case "per-thread" if event.is_group:
            return wired.chat_id, event.thread_id
    return wired.chat_id, None


def message(conn: apsw.Connection, channel: str, event: Event, taker: Taker, *, now_ms: int) -> NewMessage:
    """What the agent is given, in its session, which is made if it is the first."""
    wired = taker.wiring
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
        message=taker.text,
        content=content.encode(_content(event)),
        files=json.dumps(event.attachments) if event.attachments else "[]",
        agent=wired.agent,
        session_id=sessions.ensure(conn, wired.agent, *key_of_session(wired, event), now_ms=now_ms),
        trigger=taker.trigger,
    )


def _content(event: Event) -> MessageContent:
    kept = MessageContent()
    if event.context:
        kept["context"] = event.context
    if event.kind == "command":
        kept["own_answer"] = True  # the platform shows a place for the answer to each command
    if event.reply_to:
        kept["reply_to"] = event.reply_to
    if event.edited:
        kept["edited"] = True
    if event.is_group:
        kept["is_group"] = True
    return kept
