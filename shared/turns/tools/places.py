"""Where a tool speaks: the place of the turn, or a named destination of the agent. A place without a name is not
allowed."""

import msgspec

from shared.agents import prompt
from shared.channels import registry
from shared.core import content, hops, ids
from shared.core.content import ResponseContent
from shared.core.errors import ConfigInvalid, NotFound, WrongState
from shared.db.queue.message_row import Message
from shared.db.queue.responses import NewResponse
from shared.db.roster import chats, destinations
from shared.db.roster.chats import Chat
from shared.db.roster.destinations import Destination
from shared.queue import endings, replies
from shared.queue.teamwork import mailbox, rooms
from shared.turns.tools.base import ToolCall
from shared.turns.tools.outbox_files import FileTaker

_LISTED = 30  # destinations that an error names


class SpeakingPlace(msgspec.Struct, frozen=True):
    """A place where people read messages.

    Attributes:
        name: for the model.
        asked: the message of a person that is answered there; None: no message of this turn came from there.
        chat: the chat, if *asked* is None.
    """

    name: str
    asked: Message | None = None
    chat: Chat | None = None

    @property
    def channel(self) -> str:
        """The channel's name."""
        return self.asked.channel if self.asked is not None else self._chat.channel

    @property
    def chat_id(self) -> int | None:
        """The row of the chat; None where a client fetches the answers."""
        return self.asked.chat_id if self.asked is not None else self._chat.id

    @property
    def platform_id(self) -> str | None:
        """The platform's id of the chat."""
        return self.asked.platform_id if self.asked is not None else self._chat.platform_id

    @property
    def thread_id(self) -> str | None:
        """The thread or topic, or None."""
        return self.asked.thread_id if self.asked is not None else None

    @property
    def private_to(self) -> str | None:
        """The one person who may see what is said there, or None."""
        return content.private_to(self.asked.content) if self.asked is not None else None

    @property
    def has_buttons(self) -> bool:
        """Whether messages there can have buttons."""
        return registry.traits(self.channel).has_buttons

    @property
    def _chat(self) -> Chat:
        assert self.chat is not None  # noqa: S101 - a place has one of the two
        return self.chat


def destination(call: ToolCall, name: str) -> Destination:
    """The destination of the agent with this name.

    Raises:
        NotFound: it has none; the message lists what it has.
    """
    found = destinations.get(call.conn, call.agent.id, name)
    if found is None:
        known = [each.name for each in destinations.of_agent(call.conn, call.agent.id)]
        listed = ", ".join(known[:_LISTED]) or "none"
        raise NotFound(f"you have no destination {name[:64]!r}; your destinations: {listed}")
    return found


def place(call: ToolCall, to: str | None) -> SpeakingPlace:
    """The destination that the agent calls *to*; None: the place of the turn's person.

    Raises:
        NotFound: the agent has no such destination.
        ConfigInvalid: the destination is an agent.
        WrongState: nothing can be said there, or nobody wrote in this turn.
    """
    if to is None:
        return here(call)
    found = destination(call, to)
    if found.target_chat is None:
        raise ConfigInvalid(f"{to!r} is an agent: use send_to_agent to write to it")
    return _of_chat(call, to, found.target_chat)


def here(call: ToolCall) -> SpeakingPlace:
    """The place of the turn.

    Raises:
        WrongState: no person wrote in this turn.
    """
    person = mailbox.person_of(call.asked) if call.asked is not None else None
    if person is not None:
        return SpeakingPlace("this conversation", person)
    if call.asked is None and call.session.chat_id is not None:
        return _of_chat(call, "this conversation", call.session.chat_id)
    if call.asked is None:
        raise WrongState("there is no conversation here: name a destination in 'to' (list_destinations lists them)")
    team = call.asked.content.get("team") if call.asked.channel == rooms.CHANNEL else None
    reader = f"the room of team {team}" if team else f"agent {call.asked.from_agent}"
    raise WrongState(
        f"no person wrote in this turn: your final answer goes to {reader} by itself. To write somewhere else, name a "
        "destination in 'to' (list_destinations lists them)"
    )


def _of_chat(call: ToolCall, name: str, chat_id: int) -> SpeakingPlace:
    chat = chats.get(call.conn, chat_id)
    if chat is None or chat.status != "active" or chat.channel == rooms.CHANNEL:
        raise WrongState(f"{name!r} can't be written to: the bot was blocked there or removed; tell the person so")
    person = mailbox.person_of(call.asked) if call.asked is not None else None
    if person is not None and person.chat_id == chat.id and content.private_to(person.content) is None:
        return SpeakingPlace(name, person)
    return SpeakingPlace(name, chat=chat)


def file_taker(call: ToolCall, there: SpeakingPlace) -> FileTaker:
    """What the people there can be given."""
    if there.asked is not None and endings.is_waited_for(call.conn, there.asked):
        return FileTaker(is_fetched=True)
    return FileTaker(limits=registry.traits(there.channel).files if there.chat_id is not None else None)


def words(call: ToolCall, text: str) -> str:
    """What the agent says, without what the prompt wraps around messages.

    Raises:
        ConfigInvalid: nothing is left of it.
    """
    batch = call.claim.batch if call.claim is not None else ()
    said = prompt.unwrapped(text, {each.message_id for each in batch})
    if not said.strip():
        raise ConfigInvalid("argument 'text': it is empty; write what the person is to read")
    return said


def response(call: ToolCall, there: SpeakingPlace, text: str, carried: ResponseContent | None = None) -> NewResponse:
    """The response with *text* for that place; *carried*: further fields of its content."""
    if there.asked is not None:
        new = replies.response(there.asked, text, agent=call.agent.id, session_id=call.session.id)
        return new._replace(content=content.encode(content.decode(new.content) | (carried or {})))
    because: ResponseContent = {}
    if call.asked is not None:
        because = {"origin": hops.origin(call.asked.content, call.asked.message_id)}
    return NewResponse(
        message_id=ids.new("proactive"),
        channel=there.channel,
        chat_id=there.chat_id,
        platform_id=there.platform_id,
        sender=there.chat.name or "" if there.chat is not None else "",
        message=text,
        agent=call.agent.id,
        session_id=call.session.id,
        content=content.encode(because | (carried or {})),
    )
