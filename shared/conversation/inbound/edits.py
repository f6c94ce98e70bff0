"""Edits, for each agent of the chat, by what became of the message.

::

    its album gathers, or it is held ─> replaced there
    waits ─────────────────────────────> replaced
    runs, or is answered ──────────────> kept as context, with the id of the message; never answered again;
                                         where its turn can be told, ``shared/turns/run/telling`` tells it
    was context ───────────────────────> answered once, if the edit addresses the agent; else as above
    was given to no agent ─────────────> answered once, if the edit addresses one
    nothing to see has changed ────────> nothing

A person who may not talk to an agent can't reach it by an edit either.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Literal

import apsw

from shared.channels.base import Event
from shared.conversation.access import people, requests
from shared.conversation.inbound import versions
from shared.conversation.routing import albums, quotations, recipients, router
from shared.conversation.routing.apply import Routed, apply
from shared.conversation.routing.effects import (
    CancelMessage,
    Drop,
    Effect,
    HoldForSender,
    Isolated,
    ReplaceMessage,
    StoreMessage,
    WithinLimits,
)
from shared.conversation.routing.offers import Offer, make_offer
from shared.conversation.routing.recipients import Recipient
from shared.core.policy import AccessPolicy
from shared.db.access import albums as stored_albums
from shared.db.access import held_events
from shared.db.queue import event_keys
from shared.db.roster import wirings
from shared.db.roster.chats import Chat
from shared.db.roster.wirings import Wiring
from shared.db.views import originals
from shared.db.views.originals import Original

_UNSEEN_MS = 60 * 60 * 1000  # shorter than any message is kept
_NOT_GIVEN = ("not_addressed", "not_wired")
_REPLACED = "its sender edited it"

Step = Literal["unchanged", "replace", "context", "engage", "pass"]


def handle(conn: apsw.Connection, channel: str, event: Event, policy: AccessPolicy, *, now_ms: int) -> Routed | None:
    """Do what the edit asks for; None if it names no message of a chat."""
    platform_id, ref = event.platform_id, event.platform_message_id
    if event.reason is not None or platform_id is None or ref is None:
        return None
    counted = apply(conn, channel, event, [WithinLimits()], policy=policy, now_ms=now_ms)
    if counted.dropped is not None:
        return counted
    if not event_keys.add(conn, channel, event.event_key, now_ms=now_ms):
        return Routed(duplicates=1)
    event = router.with_thread(channel, event)
    if _replace_gathered(conn, channel, event, policy):
        return Routed(changed=1)
    held = _replace_held(conn, channel, event)
    whole_id = stored_albums.message_of(conn, channel, platform_id, ref) or ref
    given = originals.find(conn, channel, platform_id, whole_id)
    known = [each for each in given if each.sender_id == event.sender_id]  # nobody puts words in another's mouth
    is_unseen = not given and _is_unseen(conn, channel, event, whole_id, now_ms)
    wired_chat = wirings.find_chat(conn, channel, platform_id)
    wired = versions.wirings_of(wired_chat, known)
    if wired_chat is None or not wired:
        return Routed(changed=held) if held else _as_message(conn, channel, event, policy, now_ms, is_unseen=is_unseen)
    chat = wired_chat.chat
    effects = list(_decide(conn, channel, event, chat, wired, known, is_held=held > 0, is_unseen=is_unseen))
    if not (effects or given or held):
        effects = [Drop("not_addressed")]
    routed = apply(conn, channel, event, effects, policy=policy, chat=chat, now_ms=now_ms)
    return routed._replace(changed=routed.changed + held)


def _as_message(
    conn: apsw.Connection, channel: str, event: Event, policy: AccessPolicy, now_ms: int, *, is_unseen: bool
) -> Routed:
    """In a chat without agents, an edit that addresses the bot may make it ask an owner."""
    if is_unseen:
        return router.route(conn, channel, replace(event, kind="message"), policy, now_ms=now_ms)
    return apply(conn, channel, event, [Drop("not_wired")], policy=policy, now_ms=now_ms)


# -- before it is a message -------------------------------------------------------------------------------------------


def _replace_gathered(conn: apsw.Connection, channel: str, event: Event, policy: AccessPolicy) -> bool:
    """Whether the edit changed a piece whose album still gathers."""
    found = stored_albums.gathered(conn, channel, event.platform_id or "", event.platform_message_id or "")
    if found is None:
        return False
    before = requests.event_of(found.event)
    after = replace(
        event, kind=before.kind, event_key=before.event_key, group_key=before.group_key, sent_at_ms=before.sent_at_ms
    )
    kept = albums.as_kept(conn, channel, after, policy)
    if kept is None or before.sender_id != event.sender_id:
        return False
    stored_albums.change(conn, found.id, json.dumps(asdict(kept)))
    return True


def _replace_held(conn: apsw.Connection, channel: str, event: Event) -> int:
    """Replace the message where it is held for approvals; for how many. What was withheld stays withheld."""
    found = held_events.of_message(conn, channel, event.platform_id or "", event.platform_message_id or "")
    changed = 0
    for held in found:
        before = requests.event_of(held.event)
        if before.sender_id != event.sender_id or before.forwarded is not None:
            continue
        whole = versions.edited(event, before.pieces, before.attachments)
        after = replace(
            before,
            text=whole.text,
            attachments=whole.attachments,
            pieces=whole.pieces,
            mention=whole.mention,
            command=whole.command,
            command_args=whole.command_args,
            is_mention=before.is_mention or whole.is_mention,
            edited=True,
        )
        held_events.change(conn, held.id, json.dumps(asdict(after)))
        changed += 1
    return changed


# -- each agent of the chat -------------------------------------------------------------------------------------------


def _decide(
    conn: apsw.Connection,
    channel: str,
    event: Event,
    chat: Chat,
    wired: Sequence[Wiring],
    known: Sequence[Original],
    *,
    is_held: bool,
    is_unseen: bool,
) -> Iterator[Effect]:
    """The effects of the edit on these agents of the chat."""
    asked = {original.agent for original in known if original.trigger}
    there = [each for each in wired if each.id != versions.GONE or each.agent in asked]
    addressee = recipients.only_wired(recipients.read_addressee(conn, event), there)
    stuck = recipients.read_stuck(conn, event, wired)
    sender = people.standing(conn, channel, event.sender_id)
    authors = quotations.read_authors(conn, channel, event, chat)
    for each in wired:
        mine = [original for original in known if original.agent == each.agent]
        whole = versions.edited(event, *versions.parts_of(mine))
        chosen = recipients.choose(whole, [each], addressee, stuck).recipients
        if each.id == versions.GONE:
            chosen = [Recipient(each, False, whole.text)]
        taken = recipients.answering(whole, each, addressee) if each.agent in asked or not chosen else chosen[0]
        offer = make_offer(whole, chat, taken, sender, authors)
        step = judge(mine, offer, engages=bool(chosen and chosen[0].trigger), takes=bool(chosen), is_unseen=is_unseen)
        yield from (_isolated(each.agent, effect) for effect in _effects(step, mine, offer, is_held=is_held))


def _isolated(agent: str, effect: Effect) -> Effect:
    if isinstance(effect, StoreMessage | HoldForSender | ReplaceMessage):
        return Isolated(agent, effect)
    return effect


def _is_unseen(conn: apsw.Connection, channel: str, event: Event, whole_id: str, now_ms: int) -> bool:
    """Whether certainly no agent of the chat was given the message before.

    A bot often does not get a message that does not name it, so the edit may be the first version that it gets.
    """
    if originals.dropped_as(conn, channel, event.platform_id or "", whole_id) in _NOT_GIVEN:
        return True
    first = event.first_sent_at_ms
    return first is not None and first > max(now_ms - _UNSEEN_MS, originals.searched_since(conn))


def judge(mine: Sequence[Original], offer: Offer, *, engages: bool, takes: bool, is_unseen: bool) -> Step:
    """What the edit does for one agent. Pure.

    Args:
        mine: the agent's messages of it, newest first.
        engages: the edit addresses the agent; *takes*: or it is context for the agent at least.
        is_unseen: no agent was given the message before.
    """
    if mine and versions.is_same(mine[0], offer.recipient.text, offer.heard.attachments):
        return "unchanged"
    asked = next((each for each in mine if each.trigger), None)
    if asked is not None:
        return "replace" if asked.waits else "context"
    if mine and engages:
        return "engage"
    if mine:
        return "replace" if mine[0].waits else "context"
    if not takes:
        return "pass"
    return "engage" if engages and is_unseen else "context"


def _effects(step: Step, mine: Sequence[Original], offer: Offer, *, is_held: bool) -> list[Effect]:
    """The effects of a step. Pure."""
    if step in ("unchanged", "pass"):
        return []
    if offer.verdict == "refuse":
        return [Drop(offer.reason)]
    if offer.outcome != "pass":  # what was sent as a command is not undone, and an edit is no command
        return [Drop(f"command_in_edit:{offer.command}")]
    if offer.verdict == "ask":
        return _ask(step, offer, is_held=is_held)
    if step == "engage":
        waiting = [CancelMessage(each.id, _REPLACED) for each in mine if each.waits]
        return [*waiting, StoreMessage(offer.recipient._replace(trigger=True), offer.heard)]
    is_asked_anew = step == "replace" and any(each.trigger for each in mine)  # a turn gave it back
    older = [each for each in mine if each.waits and not each.trigger] if is_asked_anew else []
    return [*(CancelMessage(each.id, _REPLACED) for each in older), _keep(step, mine, offer)]


def _ask(step: Step, offer: Offer, *, is_held: bool) -> list[Effect]:
    """For a sender whom an approver is asked about: only messages that ask for an answer are held."""
    if is_held:
        return []
    return [HoldForSender(offer.agent, heard=offer.heard)] if step == "engage" else [Drop("sender_unknown")]


def _keep(step: Step, mine: Sequence[Original], offer: Offer) -> Effect:
    asked = next((each for each in mine if each.trigger), mine[0] if mine else None)
    aside = offer.recipient._replace(trigger=False, sticks=False)
    if asked is None:
        return StoreMessage(aside, offer.heard)
    as_context = StoreMessage(aside, offer.heard, {"message_id": asked.message_id, "as": "edits"})
    waits = asked if step == "replace" else mine[0]
    if waits.waits:
        return ReplaceMessage(waits.id, waits.content, offer.recipient, offer.heard, as_context)
    return as_context
