"""The ways to send a message: with an interaction's token while it lives, and as the bot. Pure."""

from urllib.parse import quote

import msgspec

from shared.channels.base import Outgoing
from shared.channels.platform_api import CallResult

FALLBACKS = {"expired": ("edit", "channel"), "gone": ("follow_up", "channel")}


class SendRoute(msgspec.Struct, frozen=True):
    """One way to send, with an interaction's token or as the bot. *is_repeatable*: two calls make one message."""

    method: str
    url: str
    is_repeatable: bool
    is_token: bool = False


def every(to: Outgoing, *, base: str, webhook: str | None) -> dict[str, SendRoute]:
    """Every route to this conversation that is open now, by name.

    Args:
        webhook: the address with the interaction's token; None where there is none, or its time is over.
    """
    routes = {}
    here = to.context if to.click is None else to.click
    if webhook:
        # An answer is repeatable only as long as the token lives: see ``find_sent``.
        original = f"{webhook}/messages/@original"
        routes["original"] = SendRoute("PATCH", original, is_repeatable=bool(to.edits), is_token=True)
        routes["follow_up"] = SendRoute("POST", webhook, is_repeatable=False, is_token=True)
    if here.get("bot_is_there", True) and not is_secret(to):
        url = f"{channel_url(to, base)}/messages"
        routes["channel"] = SendRoute("POST", url, is_repeatable=False)  # for minutes only: see ``find_sent``
        if to.edits:
            routes["edit"] = SendRoute("PATCH", f"{url}/{quote(to.edits, safe='')}", is_repeatable=True)
    return routes


def channel_url(to: Outgoing, base: str) -> str:
    """The address of the channel or thread of *to*."""
    return f"{base}/channels/{quote(to.thread_id or to.platform_id, safe='')}"


def best(to: Outgoing, *, has_token: bool) -> str:
    """The name of the best route. The answer to a press is "wait", so @original is the message with the button."""
    if to.click is None:
        if to.edits:
            return "edit"
        return ("original" if to.is_first else "follow_up") if has_token else "channel"
    if to.edits:
        return "original" if has_token and to.edits == to.click.get("message_id") else "edit"
    return "follow_up" if has_token else "channel"


def can_quote(to: Outgoing) -> bool:
    """Whether the message that is answered is one of this very channel: an interaction is no message at all."""
    is_message = "interaction_id" not in to.context and to.reply_to != to.thread_id
    return bool(to.reply_to) and to.is_first and is_message


def message_url(message_id: str, to: Outgoing, base: str) -> str:
    """The address of a message where *to* goes. The message that a thread was made from is not in the thread."""
    place = to.platform_id if message_id == to.thread_id else to.thread_id or to.platform_id
    return f"{base}/channels/{quote(place, safe='')}/messages/{quote(message_id, safe='')}"


def is_secret(to: Outgoing) -> bool:
    """Whether only the person who pressed the button may read it, in a place where others read too."""
    return to.click is not None and not to.edits and bool(to.click.get("guild_id"))


def expired(to: Outgoing) -> CallResult:
    """The end where no route is left because the token's time is over."""
    why = "only the person who pressed may read this" if is_secret(to) else "the bot is no member of that conversation"
    return CallResult("permanent", f"the interaction's 15 minutes are over, and {why}")
