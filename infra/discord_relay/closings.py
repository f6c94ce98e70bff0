"""What follows the end of a connection to the Gateway. Pure.

Source: https://docs.discord.com/developers/topics/opcodes-and-status-codes#gateway-gateway-close-event-codes.
"""

from typing import Literal

Next = Literal["resume", "identify", "stop"]

OURS = 4000  # how this side closes: 1000 and 1001 would end the session

_ENDS_THE_SESSION = (4007, 4009)
_FATAL = {
    4004: "Discord refuses the bot's token: set DISCORD_BOT_TOKEN to the one on the page Bot of the developer portal",
    4010: "Discord refuses the shard, although this relay asks for none: is it newer than this release?",
    4011: "the bot is in too many servers for one connection: this relay has no shards",
    4012: "Discord no longer speaks version 10 of its Gateway: install a newer release of Postroom",
    4013: "Discord does not know one of the intents: install a newer release of Postroom",
    4014: (
        "Discord does not allow this bot to read the content of all messages: switch the Message Content Intent on, on "
        "the page Bot of the developer portal, or unset DISCORD_RELAY_CONTENT"
    ),
}


def after_close(code: int | None) -> Next:
    """What to do after the other side closed with *code*; None: the connection was cut."""
    if code in _FATAL:
        return "stop"
    return "identify" if code in _ENDS_THE_SESSION else "resume"


def sentence(code: int | None) -> str:
    """What an operator has to do after a code that stops the relay."""
    return _FATAL[code or 0]
