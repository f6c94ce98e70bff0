"""Our reactions to messages: responses, which go out in the order of their chat."""

from contextlib import suppress

import apsw

from shared.channels import registry
from shared.core.content import Reaction
from shared.core.errors import ConfigInvalid, NotFound, PermanentError, WrongState
from shared.db.queue import claims, messages
from shared.db.queue.message_row import Message
from shared.db.queue.responses import NewResponse
from shared.db.views.own_responses import OwnResponse
from shared.queue.replies import beside

_VARIATION = "\ufe0f"  # says "as a picture"; platforms list their emoji without it


def message(conn: apsw.Connection, message_id: str) -> Message:
    """The message with this visible id.

    Raises:
        NotFound: there is none.
    """
    row_id = messages.find(conn, message_id)
    found = claims.readable(conn, row_id) if row_id is not None else None
    if found is None:
        raise NotFound(f"there is no message {message_id!r}, or it was deleted")
    return found


def to_message(asked: Message, emoji: str | None, *, agent: str | None, session_id: int | None) -> NewResponse:
    """The reaction to a message of a person; *emoji* None takes ours back.

    Raises:
        WrongState: the channel has no reactions, or the message has no id there.
        ConfigInvalid: the channel does not take this emoji.
    """
    if asked.chat_id is None or asked.platform_message_id is None:
        raise WrongState(f"message {asked.message_id} is on no platform that has reactions: say it in words")
    reaction = Reaction(emoji=checked(asked.channel, emoji), message_id=asked.platform_message_id, row=None)
    return beside(asked, reaction["emoji"] or "", {"reaction": reaction}, agent=agent, session_id=session_id)


def to_response(said: OwnResponse, emoji: str | None, *, agent: str | None, session_id: int | None) -> NewResponse:
    """The reaction to what an agent said itself.

    Raises:
        WrongState: the channel has no reactions, or the message never arrived.
        ConfigInvalid: the channel does not take this emoji.
    """
    if said.chat_id is None or said.status in ("dead", "deleted"):
        raise WrongState(f"message {said.id} is not in a chat with reactions, or was never delivered")
    reaction = Reaction(emoji=checked(said.channel, emoji), message_id=None, row=said.id)
    return beside(said, reaction["emoji"] or "", {"reaction": reaction}, agent=agent, session_id=session_id)


def checked(channel: str, emoji: str | None) -> str | None:
    """The emoji as the channel's platform lists it, or the nearest that it lists.

    Raises:
        WrongState: the channel has no reactions.
        ConfigInvalid: it takes neither this emoji nor one that is near; the message lists what it takes.
    """
    traits = registry.traits(channel)
    if not traits.has_reactions:
        raise WrongState(f"{channel} has no reactions: say it in words, if it matters")
    if emoji is None or not traits.reactions:
        return emoji
    plain = emoji.replace(_VARIATION, "")
    known = {each.replace(_VARIATION, ""): each for each in traits.reactions}
    if plain in known:
        return known[plain]
    with suppress(PermanentError):
        if traits.nearest_reaction is not None:
            return traits.nearest_reaction(emoji)
    raise ConfigInvalid(f"{channel} does not take the reaction {emoji!r}; it takes: {' '.join(traits.reactions)}")
