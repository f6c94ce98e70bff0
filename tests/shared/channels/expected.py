"""Translates events into the terms of the expectation tables beside the recorded events."""

from collections.abc import Collection
from typing import Any

from shared.channels.base import Event


def seen(event: Event, channel: str, in_context: Collection[str]) -> dict[str, Any]:
    """*event* in the terms of the tables, with the keys *in_context* of its context."""
    return {
        "kind": event.kind,
        "channel": channel,
        "platform_id": event.platform_id,
        "thread_id": event.thread_id,
        "sender": event.sender,
        "sender_id": event.sender_id,
        "text": event.text,
        "attachments": list(event.attachments),
        "is_mention": event.is_mention,
        "reply_to": event.reply_to,
        "is_group": event.is_group,
        "message_id": event.platform_message_id,
        "command": event.command,
        "command_args": event.command_args,
        "reason": event.reason,
        "media_group_id": event.group_key,
        "reactions_added": event.context.get("added"),
        "reactions_removed": event.context.get("removed"),
        **{name: event.context[name] for name in in_context if name in event.context},
    }
