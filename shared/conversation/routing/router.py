"""Decides on a platform's event: reads facts from rows, decides in pure functions, returns effects.

::

    unreadable, empty ─> dropped
    no wiring in the chat ─> wired | held, and an owner is asked | dropped; /stop ends what still works there
    each wiring, highest priority first, and none stops another:
        engages, or is named ──┬─ the sender may not talk to it ─> dropped
                               ├─ a command ─> dropped | refused with a sentence | done | text like any other
                               ├─ the sender is unknown ─> held, and an approver is asked
                               └─ else ─> stored, and asks for a turn
        does not, but accumulates ─> stored as context, if the sender may talk to it

Nothing that a refused sender wrote is stored anywhere, also where another person quotes it (``quotations``). A
redelivery is stored for the agents that missed it; nothing is said or done a second time because of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import apsw

from shared.channels import registry
from shared.channels.base import Event
from shared.conversation.access import people, rules
from shared.conversation.access.rules import Standing
from shared.conversation.routing import addressing, albums, commands, quotations, recipients
from shared.conversation.routing.apply import Routed, apply
from shared.conversation.routing.effects import (
    ActivateChat,
    ClearSession,
    Drop,
    Effect,
    ForgetPerson,
    HoldForChat,
    Isolated,
    Once,
    RememberDirectChat,
    RenameChat,
    Say,
    Stop,
    StoppedSession,
    TellWhy,
    Wire,
    WithinLimits,
)
from shared.conversation.routing.offers import Offer, as_heard, command_in, effect_of, make_offer
from shared.conversation.routing.recipients import Chosen
from shared.conversation.routing.unwired import reason_not_to_wire
from shared.core.policy import AccessPolicy
from shared.db.access import albums as stored_albums
from shared.db.access import dropped
from shared.db.roster import agents, wirings
from shared.db.roster.chats import Chat
from shared.db.roster.wirings import WiredChat
from shared.queue import stops
from shared.roster import accounts
from shared.roster.wirings import WiringChange

_AFTER_THE_OTHERS = -1  # the priority of an agent that is wired only for messages that name it


def route(conn: apsw.Connection, channel: str, event: Event, policy: AccessPolicy, *, now_ms: int) -> Routed:
    """Store the event for every agent that takes it, or record why not, in the caller's transaction."""
    reason = reason_to_ignore(event)
    if reason is not None:
        return apply(conn, channel, event, [Drop(reason)], policy=policy, now_ms=now_ms)
    event = with_thread(channel, event)
    wired_chat = wirings.find_chat(conn, channel, event.platform_id or "")
    if wired_chat is not None and wired_chat.wirings:
        if not wired_chat.is_gathering or event.pieces:
            return _route_wired(conn, channel, event, wired_chat, policy, now_ms=now_ms)
        before = _route_albums(conn, channel, event, policy, now_ms=now_ms)  # what the sender wrote before comes first
        return _route_wired(conn, channel, event, wired_chat, policy, now_ms=now_ms).after(before)
    chat = wired_chat.chat if wired_chat is not None else None
    if chat is not None and _stops_unwired(conn, channel, event, chat):
        once = Once(f"command_done:{commands.STOP}", (Stop(()),))
        effects = [*_news_of_chat(chat, event), WithinLimits((once,))]
        return apply(conn, channel, event, effects, policy=policy, chat=chat, now_ms=now_ms)
    effects = _decide_unwired(conn, channel, event, chat, policy)
    done = apply(conn, channel, event, effects, policy=policy, chat=chat, now_ms=now_ms)
    if done.dropped is not None or done.held:
        return done
    # Neither dropped nor held: the chat is wired now, and the wiring decides as it is stored.
    wired_chat = wirings.find_chat(conn, channel, event.platform_id or "")
    assert wired_chat is not None  # noqa: S101 - it was found or created above
    return _route_wired(conn, channel, event, wired_chat, policy, is_counted=True, now_ms=now_ms)


def _route_albums(conn: apsw.Connection, channel: str, event: Event, policy: AccessPolicy, *, now_ms: int) -> Routed:
    """Route the albums of the event's sender in its chat, which are whole now."""
    routed = Routed()
    waiting = stored_albums.of_sender(conn, channel, event.platform_id or "", event.sender_id)
    for _, joined in albums.take(conn, waiting, now_ms=now_ms):
        routed = route(conn, channel, joined, policy, now_ms=now_ms).after(routed)
    return routed


def route_held(
    conn: apsw.Connection, channel: str, event: Event, agent: str, policy: AccessPolicy, *, now_ms: int
) -> Routed:
    """Store an event that was held for *agent*, now that its sender may talk to it.

    Nothing is stored where the agent has the event already, is not wired there any more, or may not be given a command.
    """
    event = with_thread(channel, event)
    wired_chat = wirings.find_chat(conn, channel, event.platform_id or "")
    wired = next((each for each in wired_chat.wirings if each.agent == agent), None) if wired_chat is not None else None
    if wired_chat is None or wired is None:
        return Routed()
    addressee = recipients.only_wired(recipients.read_addressee(conn, event), wired_chat.wirings)
    heard = quotations.for_wiring(conn, channel, event, wired_chat.chat, wired)
    recipient = as_heard(event, heard, recipients.answering(event, wired, addressee))
    sender = people.standing(conn, channel, event.sender_id)
    offer = Offer(recipient, heard, "allow", "", *command_in(event, recipient, sender))
    effect = _answer(event, [offer], sender, _read_names(conn, [offer])) if offer.is_answered else effect_of(offer)
    return apply(conn, channel, event, [effect], policy=policy, chat=wired_chat.chat, now_ms=now_ms)


def reason_to_ignore(event: Event) -> str | None:
    """Why no agent of any chat is given the event; None if one may be. Pure."""
    if not event.asks_for_a_turn:
        return event.reason or f"unsupported:{event.kind}"
    if event.platform_id is None:
        return "no_chat"
    if not event.text and not event.attachments:
        return "empty"
    return None


def with_thread(channel: str, event: Event) -> Event:
    """The event, with its thread only on platforms that have threads; elsewhere the id means something else."""
    if event.thread_id is None or registry.traits(channel).has_threads:
        return event
    return replace(event, thread_id=None)


def _news_of_chat(chat: Chat, event: Event) -> Iterator[Effect]:
    """What every message tells about its chat: that the bot is in it, and what its people call it."""
    if chat.status != "active":
        yield ActivateChat()
    if chat.is_group and event.chat_name not in ("", chat.name):
        yield RenameChat(event.chat_name)


# -- chats without a wiring --------------------------------------------------------------------------------------------


def _stops_unwired(conn: apsw.Connection, channel: str, event: Event, chat: Chat) -> bool:
    """Whether the sender stops what an agent still does for them here, or did so: then this is a redelivery."""
    if commands.parse(event) != commands.STOP:
        return False
    if dropped.reason(conn, channel, event.event_key) == ("command_done", commands.STOP):
        return True
    sender = people.standing(conn, channel, event.sender_id)
    found = stops.without_wiring(conn, chat.id, event.thread_id, channel=channel, sender_id=event.sender_id)
    return any(rules.admits(chat.sender_policy, "all", sender, agent)[0] != "refuse" for agent, _ in found)


def _decide_unwired(
    conn: apsw.Connection, channel: str, event: Event, chat: Chat | None, policy: AccessPolicy
) -> list[Effect]:
    """As the operator wants it: the default agent is wired, an owner is asked, or the event is dropped."""
    news = list(_news_of_chat(chat, event)) if chat is not None else []
    reason = reason_not_to_wire(event, chat, policy)
    if reason is None and chat is not None and chat.sender_policy == "strict":
        is_known = people.standing(conn, channel, event.sender_id).is_known
        reason = None if is_known else "sender_unknown"
    if reason is not None:
        return [*news, Drop(reason)]
    if policy.new_chats == "ask":
        heard = quotations.for_approval(event, quotations.read_authors(conn, channel, event, chat))
        return [*news, WithinLimits((HoldForChat(heard),))]
    agent = accounts.default_agent(conn, channel)
    return [*news, WithinLimits((Wire(agent.id) if agent is not None else Drop("not_wired"),))]


# -- chats that have wirings -------------------------------------------------------------------------------------------


def _route_wired(
    conn: apsw.Connection,
    channel: str,
    event: Event,
    wired_chat: WiredChat,
    policy: AccessPolicy,
    *,
    is_counted: bool = False,
    now_ms: int,
) -> Routed:
    addressee = recipients.read_addressee(conn, event)
    if addressee is not None and policy.new_chats == "wire" and not event.is_group:
        wired_chat = _wire_addressee(conn, channel, event, wired_chat, addressee.agent, policy, now_ms=now_ms)
    stuck = recipients.read_stuck(conn, event, wired_chat.wirings)
    chosen = recipients.choose(event, wired_chat.wirings, recipients.only_wired(addressee, wired_chat.wirings), stuck)
    effects = list(_news_of_chat(wired_chat.chat, event))
    if chosen.recipients:
        sender = people.standing(conn, channel, event.sender_id)
        authors = quotations.read_authors(conn, channel, event, wired_chat.chat)
        offers = [make_offer(event, wired_chat.chat, each, sender, authors) for each in chosen.recipients]
        effects += _decide(channel, event, chosen, offers, sender, _read_names(conn, offers), is_counted=is_counted)
    else:
        effects += _drops(chosen) or [Drop("not_addressed")]
    return apply(conn, channel, event, effects, policy=policy, chat=wired_chat.chat, now_ms=now_ms)


def _wire_addressee(
    conn: apsw.Connection,
    channel: str,
    event: Event,
    wired_chat: WiredChat,
    agent: str,
    policy: AccessPolicy,
    *,
    now_ms: int,
) -> WiredChat:
    """Wire the agent that the text names into a direct chat, for messages that name it, if the sender may talk to it.

    The event is decided by the wiring as it is stored, so the chat is read again.
    """
    if any(each.agent == agent for each in wired_chat.wirings):
        return wired_chat
    sender = people.standing(conn, channel, event.sender_id)
    if rules.admits(wired_chat.chat.sender_policy, "all", sender, agent)[0] != "allow":
        return wired_chat
    only_when_named: WiringChange = {
        "engage_mode": "pattern",
        "engage_pattern": addressing.prefix_pattern(agent),
        "priority": _AFTER_THE_OTHERS,
    }
    effects = [Wire(agent, only_when_named)]
    apply(conn, channel, event, effects, policy=policy, chat=wired_chat.chat, now_ms=now_ms)
    return wirings.find_chat(conn, channel, event.platform_id or "") or wired_chat


def _read_names(conn: apsw.Connection, offers: Sequence[Offer]) -> Mapping[str, str]:
    """The names of the agents whose commands are answered."""
    found = [agents.get(conn, each.agent) for each in offers if each.is_answered]
    return {agent.id: agent.name for agent in found if agent is not None}


def _decide(
    channel: str,
    event: Event,
    chosen: Chosen,
    offers: Sequence[Offer],
    sender: Standing,
    names: Mapping[str, str],
    *,
    is_counted: bool,
) -> list[Effect]:
    """The effects of an event that has recipients. Pure.

    Args:
        names: of the agents whose commands are answered.
        is_counted: the event has been counted against the limits already.
    """
    answered = [each for each in offers if each.is_answered]
    # The answer to commands comes first: its record tells a redelivery from the event itself.
    effects: list[Effect] = [_answer(event, answered, sender, names)] if answered else []
    effects += _drops(chosen)
    effects += [_for_one(each) for each in offers if not each.is_answered]
    is_known_direct = not event.is_group and sender.user_id is not None
    if is_known_direct and not registry.traits(channel).direct_by_sender:
        effects.append(RememberDirectChat(sender.user_id or 0))
    if is_counted:
        return effects
    counts_chat = any(each.verdict == "allow" for each in offers)
    is_told = any(each.recipient.trigger and each.verdict != "refuse" for each in offers)
    return [WithinLimits(tuple(effects), counts_chat=counts_chat, is_told=is_told)]


def _drops(chosen: Chosen) -> list[Effect]:
    return [Drop(f"wiring_failed:{agent}") for agent in chosen.failed]


def _for_one(offer: Offer) -> Effect:
    effect = effect_of(offer)
    return effect if isinstance(effect, Drop) else Isolated(offer.agent, effect)


def _stop(event: Event, stopping: Sequence[Offer], sender: Standing) -> Stop:
    """Pure."""
    keys = [(each.agent, *recipients.session_key(each.recipient.wiring, event)) for each in stopping]
    return Stop(tuple(StoppedSession(*key, event.private_to, sender.administers(key[0])) for key in keys))


def _answer(event: Event, answered: Sequence[Offer], sender: Standing, names: Mapping[str, str]) -> Once:
    """Do what was commanded and say so once for all agents, also for which of them the sender is no admin. Pure."""
    stopping = [each for each in answered if each.command == commands.STOP]
    if stopping:
        return Once(f"command_done:{commands.STOP}", (_stop(event, stopping, sender),))
    forgetting = tuple(each.agent for each in answered if each.command == commands.FORGET)
    if forgetting:
        return Once(f"command_done:{commands.FORGET}", (ForgetPerson(forgetting),))
    explaining = next((each for each in answered if (each.command, each.outcome) == (commands.WHY, "do")), None)
    if explaining is not None:
        _, *ref = commands.behind_mention(replace(event, text=explaining.recipient.text)).split()[:2]
        return Once(f"command_done:{commands.WHY}", (TellWhy(ref[0][:200] if ref else None, sender),))
    done = [each for each in answered if each.outcome == "do"]
    refused = [each for each in answered if each.outcome == "refuse"]
    sentences = [commands.done(names.get(each.agent, each.agent)) for each in done]
    sentences += [commands.refusal(each.command or "", names.get(each.agent, each.agent)) for each in refused]
    effects: list[Effect] = [
        ClearSession(each.agent, *recipients.session_key(each.recipient.wiring, event), event.private_to)
        for each in done
    ]
    effects += [Drop(f"command_refused:{each.command}") for each in refused]
    effects.append(Say("\n\n".join(dict.fromkeys(sentences))))
    first = (refused or done)[0]
    return Once(f"{'command_refused' if refused else 'command_done'}:{first.command}", tuple(effects))
