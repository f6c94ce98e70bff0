"""Chats without a wiring: whether an agent may be wired there for an event. Pure."""

from shared.channels.base import Event
from shared.core.policy import AccessPolicy
from shared.db.roster.chats import Chat


def reason_not_to_wire(event: Event, chat: Chat | None, policy: AccessPolicy) -> str | None:
    """Why no agent gets wired to the chat, for any sender."""
    if chat is not None and chat.refused_at is not None:
        return "chat_refused"
    is_meant = event.is_mention or not event.is_group
    return "not_wired" if policy.new_chats == "refuse" or not is_meant else None
