"""Deletions, for each agent that was given the message.

::

    its album gathers, or it is held ─> taken out there
    waits ────────────────────────────> cancelled; of an album, the piece is taken out
    runs, or is answered ─────────────> its deletion is context, without a text

Only some platforms tell of a deletion.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace

import apsw

from shared.channels.base import Event
from shared.conversation.access import requests
from shared.conversation.inbound import versions
from shared.conversation.routing.apply import Routed, apply
from shared.conversation.routing.effects import CancelMessage, Drop, Effect, ReplaceMessage, StoreMessage
from shared.conversation.routing.recipients import Recipient
from shared.core.policy import AccessPolicy
from shared.db.access import albums as stored_albums
from shared.db.access import held_events
from shared.db.queue import event_keys
from shared.db.roster import wirings
from shared.db.roster.wirings import Wiring
from shared.db.views import originals
from shared.db.views.originals import Original

_REASON = "its sender deleted it"
_SAID = "(deleted this message)"


def handle(conn: apsw.Connection, channel: str, event: Event, policy: AccessPolicy, *, now_ms: int) -> Routed | None:
    """Do what the deletion asks for; None if it names no message of a chat."""
    ref = event.platform_message_id
    if event.reason is not None or event.platform_id is None or ref is None:
        return None
    if not event_keys.add(conn, channel, event.event_key, now_ms=now_ms):
        return Routed(duplicates=1)
    taken_out = _take_out(conn, channel, event)
    if taken_out:
        return Routed(changed=taken_out)
    wired_chat = wirings.find_chat(conn, channel, event.platform_id)
    whole_id = stored_albums.message_of(conn, channel, event.platform_id, ref) or ref
    known = originals.find(conn, channel, event.platform_id, whole_id)
    wired = versions.wirings_of(wired_chat, known)
    effects = [effect for each in wired for effect in _decide(event, each, known)]
    effects = effects if known else [Drop("message_unknown")]
    chat = wired_chat.chat if wired_chat is not None else None
    return apply(conn, channel, event, effects, policy=policy, chat=chat, now_ms=now_ms)


def _take_out(conn: apsw.Connection, channel: str, event: Event) -> int:
    """Take it out of the album that gathers, and out of what is held for approvals; how often it was there."""
    of = (conn, channel, event.platform_id or "", event.platform_message_id or "")
    piece = stored_albums.gathered(*of)
    if piece is not None:
        stored_albums.change(conn, piece.id, None)
    found = held_events.of_message(*of)
    for held in found:
        before = requests.event_of(held.event)
        rest = versions.without(event, before.pieces, before.attachments)
        kept = None
        if rest is not None:
            kept = replace(before, text=rest.text, attachments=rest.attachments, pieces=rest.pieces)
        held_events.change(conn, held.id, None if kept is None else json.dumps(asdict(kept)))
    return len(found) + (piece is not None)


def _decide(event: Event, wired: Wiring, known: list[Original]) -> Iterator[Effect]:
    """What the deletion does for one agent. Pure."""
    mine = [each for each in known if each.agent == wired.agent]
    if not mine:
        return
    asked = next((each for each in mine if each.trigger), mine[0])
    said = replace(
        event,
        sender=event.sender or asked.sender,
        text=_SAID,
        thread_id=asked.thread_id,
        is_group=asked.content.get("is_group", False),
        context=asked.content.get("context", {}),  # what one person alone saw is told in that person's session
    )
    told = StoreMessage(Recipient(wired, False, _SAID), said, {"message_id": asked.message_id, "as": "deletes"})
    rest = versions.without(event, *versions.parts_of([asked]))
    if asked.waits and rest is not None:
        yield ReplaceMessage(asked.id, asked.content, Recipient(wired, asked.trigger, rest.text), rest, told)
        return
    for each in mine:
        if each.waits:
            yield CancelMessage(each.id, _REASON)
    if asked.trigger and not asked.waits and asked.status != "cancelled":
        yield told
