"""Translates events into the terms of the expectation tables beside the recorded events, and damages recorded ones."""

from collections.abc import Collection, Iterator
from typing import Any

from hypothesis import strategies as st

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


def replace_one_value(document: Any, data: Any) -> None:
    """Put something of another kind in the place of any value of the *document*; *data* chooses."""
    *way, last = data.draw(st.sampled_from(list(_paths(document))))
    for key in way:
        document = document[key]
    kinds = [None, True, -1, 2**70, 1.5, "", "x", [], {}, [None], {"id": "?"}, {"id": 7}, [{"type": 2}]]
    document[last] = data.draw(st.sampled_from(kinds))


def _paths(node: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield (*prefix, key)
        if len(prefix) < 8:
            yield from _paths(value, (*prefix, key))
