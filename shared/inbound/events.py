"""What becomes of an event, whatever it is: a press of a button, a pairing code, a chat's own news, or a message."""

import apsw

from shared.channels.base import Event
from shared.core.policy import Policy
from shared.db.roster import chats
from shared.inbound import decisions, pairing
from shared.routing import commands, rate_limits, router
from shared.routing.router import Routed

_GONE = ("left", "kicked")  # of the bot in a chat; in a direct one: the person blocked it
_START = "start"
_THERE = ("member", "administrator", "creator", "restricted")


def take(conn: apsw.Connection, channel: str, event: Event, policy: Policy, *, now_ms: int) -> Routed:
    """Do what the event asks for, in the caller's transaction; safe to call again with the same event."""
    match event.kind:
        case "callback":
            taken = _pressed(conn, channel, event, policy, now_ms=now_ms)
        case "membership":
            taken = _changed(conn, channel, event, now_ms=now_ms)
        case "migrate":
            taken = _moved(conn, channel, event, now_ms=now_ms)
        case "message" | "command":
            taken = _paired(conn, channel, event, policy, now_ms=now_ms)
        case _:
            taken = None
    return router.store(conn, channel, event, policy, now_ms=now_ms) if taken is None else taken


def _pressed(conn: apsw.Connection, channel: str, event: Event, policy: Policy, *, now_ms: int) -> Routed | None:
    """A press of a button; None if nobody knows the button."""
    too_much = _exceeded(conn, channel, event, policy, now_ms=now_ms)
    if too_much is not None:
        return too_much
    clicked = decisions.click(conn, channel, event, policy=policy, now_ms=now_ms)
    if clicked is None:
        return None
    return Routed(stored=clicked.stored, dropped=clicked.dropped, said=clicked.said)


def _paired(conn: apsw.Connection, channel: str, event: Event, policy: Policy, *, now_ms: int) -> Routed | None:
    """``/start CODE``, in whatever chat, wired or not; None if it is something else."""
    said = pairing.said_to_us(event)
    code = pairing.code_in(event) if commands.command_of(event, said) == _START else None
    if code is None or router.unusable(event) is not None:
        return None
    too_much = _exceeded(conn, channel, event, policy, now_ms=now_ms)
    if too_much is not None:
        return too_much
    claimed = pairing.claim(conn, channel, event, code, policy=policy, now_ms=now_ms)
    return Routed(stored=claimed.stored, dropped=claimed.dropped, said=claimed.sentence is not None)


def _exceeded(conn: apsw.Connection, channel: str, event: Event, policy: Policy, *, now_ms: int) -> Routed | None:
    over = rate_limits.exceeded(conn, channel, event, policy, now_ms=now_ms)
    if over is None:
        return None
    chat = chats.find(conn, channel, event.platform_id or "")
    return router.refuse_for_now(conn, channel, event, over, chat=chat, is_asked=True, now_ms=now_ms)


def _changed(conn: apsw.Connection, channel: str, event: Event, *, now_ms: int) -> Routed | None:
    """The bot was blocked, removed or let in again; None if that is no chat of ours, or nothing that matters."""
    status = event.context.get("status")
    word = "inactive" if status in _GONE else "active" if status in _THERE else None
    if word is None or event.platform_id is None:
        return None
    return Routed() if chats.set_status(conn, channel, event.platform_id, word, now_ms=now_ms) else None


def _moved(conn: apsw.Connection, channel: str, event: Event, *, now_ms: int) -> Routed | None:
    """The platform calls a chat otherwise from now on; it says so twice. None if neither is a chat of ours."""
    old, new = str(event.context.get("old_platform_id")), str(event.context.get("new_platform_id"))
    is_ours = chats.move(conn, channel, old, new, now_ms=now_ms) or chats.find(conn, channel, new)
    return Routed() if is_ours else None
