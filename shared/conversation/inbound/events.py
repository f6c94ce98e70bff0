"""Handles an event of any kind: a pressed button, a pairing code, news of a chat, or a message."""

from collections.abc import Sequence

import apsw

from shared.channels.base import Event
from shared.conversation.access import channel_watch, own_bots
from shared.conversation.inbound import answers, decisions, deletions, edits, pairing, reactions
from shared.conversation.routing import albums, commands, router
from shared.conversation.routing.apply import Routed, apply
from shared.conversation.routing.effects import Drop, WithinLimits
from shared.core import logs
from shared.core.errors import OF_ONE_ROW
from shared.core.policy import AccessPolicy
from shared.db.access import albums as stored_albums
from shared.db.access import dropped
from shared.db.access.albums import Album
from shared.db.engine import meta
from shared.db.engine.connection import savepoint
from shared.db.queue import event_keys
from shared.db.roster import chats
from shared.queue import drafts

log = logs.get()

_GONE = ("left", "kicked")  # the bot was removed from a group; in a direct chat, the person blocked it
_START = "start"
_BEFORE_THE_FIRST_MS = 30 * 24 * 60 * 60 * 1000
_TO_MESSAGES = {"edit": edits.handle, "delete": deletions.handle, "reaction": reactions.handle}
_THERE = ("member", "administrator", "creator", "restricted")


def handle_all(
    conn: apsw.Connection, channel: str, events: Sequence[Event], now_ms: int, *, policy: AccessPolicy
) -> list[Routed]:
    """The outcomes of the events of one webhook, each handled as ``handle`` does; a channel that was deaf hears."""
    if any(event.is_evidence for event in events):
        channel_watch.heard(conn, channel, now_ms=now_ms)
    return [handle(conn, channel, event, policy, now_ms=now_ms) for event in events]


def handle(conn: apsw.Connection, channel: str, event: Event, policy: AccessPolicy, *, now_ms: int) -> Routed:
    """Do what the event asks for, in the caller's transaction. A redelivery is safe, however late it comes."""
    if _is_too_old(conn, event, now_ms=now_ms):
        return apply(conn, channel, event, [Drop("too_old")], policy=policy, now_ms=now_ms)
    match event.kind:
        case "callback":
            routed = _handle_press(conn, channel, event, policy, now_ms=now_ms)
        case "edit" | "delete" | "reaction":
            routed = _handle_change(conn, channel, event, policy, now_ms=now_ms)
        case "membership":
            routed = _handle_membership(conn, channel, event, now_ms=now_ms)
        case "migrate":
            routed = _handle_migration(conn, channel, event, now_ms=now_ms)
        case "account":
            routed = _handle_account(conn, channel, event, policy, now_ms=now_ms)
        case "stop":
            routed = _handle_stop(conn, channel, event, now_ms=now_ms)
        case "message" | "command":
            routed = _handle_code(conn, channel, event, policy, now_ms=now_ms)
            if routed is None and event.group_key is not None:
                routed = _handle_piece(conn, channel, event, policy, now_ms=now_ms)
        case _:
            routed = None
    return router.route(conn, channel, event, policy, now_ms=now_ms) if routed is None else routed


def _is_too_old(conn: apsw.Connection, event: Event, *, now_ms: int) -> bool:
    """Whether the event may be a copy of one whose key is forgotten by now.

    A database that began long after the event can't have had it before, and neither can one that was lost.
    """
    if event.sent_at_ms is None or event.sent_at_ms > now_ms - event_keys.KEPT_MS:
        return False
    return event.sent_at_ms > meta.began_at(conn) - _BEFORE_THE_FIRST_MS


def _handle_press(
    conn: apsw.Connection, channel: str, event: Event, policy: AccessPolicy, *, now_ms: int
) -> Routed | None:
    """A press of a button; None if no approval and no question has this button."""
    counted = apply(conn, channel, event, [WithinLimits()], policy=policy, now_ms=now_ms)
    if counted.dropped is not None:
        return counted
    decided = decisions.click(conn, channel, event, policy=policy, now_ms=now_ms)
    return decided if decided is not None else answers.click(conn, channel, event, policy=policy, now_ms=now_ms)


def _handle_code(
    conn: apsw.Connection, channel: str, event: Event, policy: AccessPolicy, *, now_ms: int
) -> Routed | None:
    """``/start CODE``, in any chat, wired or not; None for any other message."""
    text = pairing.without_bot_name(event)
    code = pairing.code_in(event) if commands.parse(event, text) == _START else None
    if code is None or router.reason_to_ignore(event) is not None:
        return None
    counted = apply(conn, channel, event, [WithinLimits()], policy=policy, now_ms=now_ms)
    if counted.dropped is not None:
        return counted
    claimed = pairing.claim(conn, channel, event, code, policy=policy, now_ms=now_ms)
    return Routed(stored=claimed.stored, dropped=claimed.dropped, said=claimed.sentence is not None)


def _handle_account(conn: apsw.Connection, channel: str, event: Event, policy: AccessPolicy, *, now_ms: int) -> Routed:
    """A person made a bot for ours, or changed its token. One that nobody asked for is not taken."""
    owner, bot = str(event.context.get("owner_id")), str(event.context.get("bot_id"))
    username = str(event.context.get("username") or "")
    if own_bots.record(conn, channel, owner, bot, username, now_ms=now_ms):
        return Routed(said=True)  # deliver sets it up
    return apply(conn, channel, event, [Drop("bot_not_asked_for")], policy=policy, now_ms=now_ms)


def _handle_change(
    conn: apsw.Connection, channel: str, event: Event, policy: AccessPolicy, *, now_ms: int
) -> Routed | None:
    """What a person does to an earlier message. Rows of it that can't be used cost this event alone."""
    try:
        with savepoint(conn):
            return _TO_MESSAGES[event.kind](conn, channel, event, policy, now_ms=now_ms)
    except OF_ONE_ROW as error:
        log.exception("event.unreadable", kind=event.kind, reason=type(error).__name__)
        return apply(conn, channel, event, [Drop("malformed")], policy=policy, now_ms=now_ms)


def _handle_piece(
    conn: apsw.Connection, channel: str, event: Event, policy: AccessPolicy, *, now_ms: int
) -> Routed | None:
    """A piece of an album waits for the others; None if no agent may be given it: its reason is recorded."""
    if router.reason_to_ignore(event) is not None or event.platform_message_id is None:
        return None
    kept = albums.as_kept(conn, channel, event, policy)
    if kept is None:
        return None
    return Routed(gathered=1) if albums.keep(conn, channel, kept, now_ms=now_ms) else Routed(duplicates=1)


def handle_due_albums(conn: apsw.Connection, policy: AccessPolicy, *, now_ms: int) -> list[Routed]:
    """Handle the albums that are whole by now, each as one event, in the caller's transaction."""
    return [_handle_album(conn, each, policy, now_ms=now_ms) for each in stored_albums.due(conn, now_ms=now_ms)]


def _handle_album(conn: apsw.Connection, album: Album, policy: AccessPolicy, *, now_ms: int) -> Routed:
    """Handle one album. Rows that can't be used cost this album alone."""
    try:
        with savepoint(conn):
            routed = Routed()
            for channel, joined in albums.take(conn, [album], now_ms=now_ms):
                routed = handle(conn, channel, joined, policy, now_ms=now_ms)
            return routed
    except OF_ONE_ROW as error:
        log.exception("album.unreadable", album=album.id, reason=type(error).__name__)
        stored_albums.join(conn, album.id, platform_message_id=None, is_mention=False, now_ms=now_ms)
        dropped.record(
            conn, channel=album.channel, reason="malformed", platform_id=album.platform_id,
            sender_id=album.sender_id, now_ms=now_ms,
        )  # fmt: skip
        return Routed(dropped="malformed")


def _handle_stop(conn: apsw.Connection, channel: str, event: Event, *, now_ms: int) -> Routed | None:
    """The stop button of a draft; None where no turn of that chat shows this draft."""
    draft_id = event.context.get("draft_id")
    cancelled = drafts.stop(conn, channel, event.platform_id or "", draft_id, now_ms=now_ms)
    return Routed(changed=cancelled) if cancelled else None


def _handle_membership(conn: apsw.Connection, channel: str, event: Event, *, now_ms: int) -> Routed | None:
    """The bot was blocked, removed or added again; None if the chat is unknown, or the news changes nothing."""
    status = event.context.get("status")
    word = "inactive" if status in _GONE else "active" if status in _THERE else None
    if word is None or event.platform_id is None:
        return None
    if not event_keys.add(conn, channel, event.event_key, now_ms=now_ms):
        return Routed(duplicates=1)  # what it said may have changed since
    return Routed() if chats.set_status(conn, channel, event.platform_id, word, now_ms=now_ms) else None


def _handle_migration(conn: apsw.Connection, channel: str, event: Event, *, now_ms: int) -> Routed | None:
    """The platform gives a chat a new id, and says so twice; None if we know neither id."""
    old, new = str(event.context.get("old_platform_id")), str(event.context.get("new_platform_id"))
    is_ours = chats.move(conn, channel, old, new, now_ms=now_ms) or chats.find(conn, channel, new)
    return Routed() if is_ours else None
