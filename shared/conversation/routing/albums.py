"""Albums: the pieces that a platform sends apart become one event, in the order of their messages.

::

    a piece ──keep──> rows of ``albums`` ──quiet, or the sender writes on, or it is full──> joined ──> router.route

A piece alone does not tell whether the bot is meant: another one may have the caption with its name. So the pieces of a
sender who may talk to an agent of the chat wait in rows for a second, with what that agent may read. A piece that comes
later is an event of its own, which addresses the bot as its album did.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace

import apsw

from shared.channels.base import Event
from shared.conversation.access import people, requests, rules
from shared.conversation.routing import quotations
from shared.conversation.routing.unwired import reason_not_to_wire
from shared.core.content import MessagePiece
from shared.core.policy import AccessPolicy
from shared.db.access import albums
from shared.db.access.albums import Album
from shared.db.roster import wirings
from shared.db.roster.wirings import WiredChat

QUIET_MS = 1_000
MOST_PIECES = 10


def as_kept(conn: apsw.Connection, channel: str, event: Event, policy: AccessPolicy) -> Event | None:
    """The piece as it may wait in rows; None where no agent is given it, whatever the other pieces say."""
    wired_chat = wirings.find_chat(conn, channel, event.platform_id or "")
    chat = wired_chat.chat if wired_chat is not None else None
    if wired_chat is not None and wired_chat.wirings:
        return _as_heard_by_any(conn, channel, event, wired_chat)
    if reason_not_to_wire(replace(event, is_mention=True), chat, policy) is not None:
        return None
    is_closed = chat is not None and chat.sender_policy == "strict"
    if is_closed and not people.standing(conn, channel, event.sender_id).is_known:
        return None
    return quotations.for_approval(event, quotations.read_authors(conn, channel, event, chat))


def _as_heard_by_any(conn: apsw.Connection, channel: str, event: Event, wired_chat: WiredChat) -> Event | None:
    """The piece, with each text that at least one of the agents may read."""
    chat, sender = wired_chat.chat, people.standing(conn, channel, event.sender_id)
    has_id = event.sender_id is not None
    admitting = [
        each
        for each in wired_chat.wirings
        if rules.admits(chat.sender_policy, each.sender_scope, sender, each.agent, has_id=has_id)[0] != "refuse"
    ]
    if not admitting:
        return None
    authors = quotations.read_authors(conn, channel, event, chat)
    heard = [quotations.for_agent(event, authors, chat, each) for each in admitting]
    words = next((each for each in heard if each.text == event.text), heard[0])
    quoted = next((each for each in heard if each.reply_to == event.reply_to), heard[0])
    return replace(words, reply_to=quoted.reply_to)


def keep(conn: apsw.Connection, channel: str, piece: Event, *, now_ms: int) -> bool:
    """Keep a piece until its album is whole. False: it came before."""
    if albums.has_piece(conn, channel, piece.event_key):
        return False
    albums.add(
        conn,
        channel=channel,
        platform_id=piece.platform_id or "",
        group_key=piece.group_key or "",
        sender_id=piece.sender_id,
        event_key=piece.event_key,
        platform_message_id=piece.platform_message_id or "",
        event=json.dumps(asdict(piece)),
        most=MOST_PIECES,
        due_ms=now_ms + QUIET_MS,
        now_ms=now_ms,
    )
    return True


def take(conn: apsw.Connection, found: Sequence[Album], *, now_ms: int) -> Iterator[tuple[str, Event]]:
    """The channel and the joined event of each album, which gathers no more. One whose pieces were deleted has none."""
    for album in found:
        pieces = [requests.event_of(each.event) for each in albums.pieces(conn, album.id)]
        joined = join(pieces, is_mention=album.is_mention) if pieces else None
        is_first = albums.join(
            conn,
            album.id,
            platform_message_id=joined.platform_message_id if joined else None,
            is_mention=joined.is_mention if joined else False,
            now_ms=now_ms,
        )
        if is_first and joined is not None:
            yield album.channel, joined


def join(pieces: Sequence[Event], *, is_mention: bool = False) -> Event:
    """One event of the pieces, in the order of their messages on the platform. Pure.

    Args:
        pieces: at least one.
        is_mention: pieces that came before addressed the bot.
    """
    ordered = sorted(pieces, key=_place)
    first = ordered[0]
    speaking = next((each for each in ordered if each.text), first)  # a command, or a name, begins its text
    return replace(
        first,
        kind=speaking.kind,
        text="\n".join(each.text for each in ordered if each.text),
        attachments=tuple(file for each in ordered for file in each.attachments),
        is_mention=is_mention or any(each.is_mention for each in ordered),
        mention=speaking.mention,
        command=speaking.command,
        command_args=speaking.command_args,
        reply_to=next((each.reply_to for each in ordered if each.reply_to is not None), None),
        forwarded=next((each.forwarded for each in ordered if each.forwarded is not None), None),
        edited=any(each.edited for each in ordered),
        pieces=tuple(_piece(each) for each in ordered),
        group_key=None,
    )


def _place(piece: Event) -> tuple[int, str]:
    """By the platform's id, which grows: as a number, where it is one."""
    id_ = piece.platform_message_id or ""
    return len(id_) if id_.isdecimal() else 0, id_


def _piece(event: Event) -> MessagePiece:
    return {"message_id": event.platform_message_id or "", "text": event.text, "files": len(event.attachments)}
