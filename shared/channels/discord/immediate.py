"""The answers to interactions that are sent at once, before any agent is asked.

Source: https://docs.discord.com/developers/interactions/receiving-and-responding#interaction-response-object.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from shared.channels.base import Choice, WebhookReply

NO_PINGS = {"parse": [], "replied_user": False}
MOST_CHOICES = 25

_EPHEMERAL = 64
_LONGEST_CHOICE = 100


def _json(body: dict[str, Any]) -> WebhookReply:
    return WebhookReply(200, msgspec.json.encode(body), "application/json")


def say(text: str) -> WebhookReply:
    """An immediate answer that only the person who asked sees."""
    return _json({"type": 4, "data": {"content": text, "flags": _EPHEMERAL, "allowed_mentions": NO_PINGS}})


def form(opened: dict[str, Any]) -> WebhookReply:
    """Opens a form of ``forms``."""
    return _json(opened)


def choices(found: Sequence[Choice]) -> WebhookReply:
    """The choices that the person sees while typing; what does not fit Discord's limits is left out."""
    fitting = [each for each in found if each.label and 0 < len(each.value) <= _LONGEST_CHOICE]
    shown = [{"name": each.label[:_LONGEST_CHOICE], "value": each.value} for each in fitting[:MOST_CHOICES]]
    return _json({"type": 8, "data": {"choices": shown}})


PONG = _json({"type": 1})
THINKING = _json({"type": 5})
NOT_TAKEN = say(
    "I can't answer this. Your message was empty, you sent too many messages within a minute, you may not talk to the "
    "agent here, or no agent is connected to this channel. The operator of this bot can see the reason."
)
NOT_STORED = say("I could not take your message in time, so nothing was done with it. Please send it again.")
# A press may have been stored, and what it decided stays decided: a second one is told so.
UNSURE = say(
    "I could not confirm this in time. Look at the message with the button, or at the chat: if nothing changes there, "
    "do it again. It counts only once."
)

_OF_KINDS = {
    "callback": _json({"type": 6}),
    "command": say("I don't know that command. Use /ask with your question."),
    "ignore": say("I could not read your message. Use /ask with your question."),
    "other_application": say(
        "This bot is set up for another application. Its operator should compare DISCORD_APPLICATION_ID with the "
        "application in Discord's developer portal."
    ),
}


def of_kind(kind: str) -> WebhookReply:
    """The answer to an interaction that asks no agent, by the event's kind."""
    return _OF_KINDS[kind]
