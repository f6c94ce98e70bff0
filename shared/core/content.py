"""The JSON columns ``messages.content``, ``responses.content`` and ``approvals.payload``, key by key.

A key is optional unless it is ``Required``. A value that says "no" (false, empty, None) is left out. Rows from earlier
releases hold the same keys, so a key never gets another name or another meaning.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Required

from typing_extensions import TypedDict

from shared.core.errors import RowInvalid

_RECEIVER = "receiver_user_id"


class QuotedMessage(TypedDict, total=False):
    """The message that a person or an agent replies to.

    Attributes:
        text: what it said, or the part of it that the person selected. A marker stands in its place where its author
            may not talk to the agent (``routing.quotations``). The prompt shows it.
        message_id: the platform's id.
        sender_id: its sender, by the platform's id; None where the platform hides the sender.
        is_self: our bot wrote it. Routing then counts the reply as addressed to the bot.
        external: it is in another chat. A reply to it is not addressed to the bot.
        origin_id: it is a forwarded message, and this is its first sender, by the platform's id; None where the
            platform hides that sender.
    """

    text: Required[str]
    message_id: str
    sender_id: str | None
    is_self: bool
    external: bool
    origin_id: str | None


class MessagePiece(TypedDict):
    """A piece of an album: the platform's id, its own words, and how many of the message's files are its own."""

    message_id: str
    text: str
    files: int


AboutMessage = TypedDict("AboutMessage", {"message_id": str, "as": Literal["edits", "deletes", "reacts_to"]})
"""What a message does to another one, by its ``message_id``."""


class MessageContent(TypedDict, total=False):
    """``messages.content``.

    From a platform; ``routing.recipients`` writes these keys:

    Attributes:
        context: ``Event.context``, which the channel adapter needs to answer. ``queue.replies`` copies it to the reply.
        own_answer: the platform waits for a reply to this very message, as to a command: ``db.queue.claims`` gives it
            a turn of its own.
        reply_to: the message that this one replies to. ``dispatch`` puts its text into the prompt. ``queue.mailbox``
            writes it too, with the text alone.
        edited: the person edited the message. For readers of the rows.
        pieces: of an album, in their order: so that an edit of one replaces its words.
        about: the message that this one edits, deletes or reacts to. The prompt shows it.
        only_files: of a message without a text, its files in words. The history keeps them in place of a text.
        is_forward: the text is somebody else's, whom the person forwards. ``turns.tools.company`` reads it.
        is_group: the chat is a group, so ``queue.replies`` quotes this message in the reply.

    Between agents; ``queue.teamwork.mailbox`` writes and reads these keys:

        hops: how many messages between agents led to this one. ``queue.teamwork.chains`` ends a loop.
            ``queue.teamwork.rooms`` writes it too.
        origin: what began the chain of messages between agents, see ``core.hops``; the message itself has none.
            ``queue.teamwork.rooms`` writes it too.
        asker: the row of the session that asked; the answer goes there.
        is_answer: this is the answer to a message between agents, and gets no answer itself.
        behalf: the message in whose turn the agent asked; what the agent says about the answer goes to its sender.
        deadline: the row of the message that wakes the agent that asked, if there is no answer by then.
            ``queue.teamwork.deadlines`` writes and reads it.

    In a team's room; ``queue.teamwork.rooms`` writes these keys, ``queue.teamwork.mailbox`` reads ``team``:

        team: the team's id.
        line: the row in ``chat_messages``.

    Others:

        approval: ``inbound.decisions`` tells a session the outcome of this approval. For readers of the rows.
        status: the state in which that approval ended. For readers of the rows.
        label: the name of a schedule. ``queue.series`` writes it, ``schedules.message_series`` reads it.
        undelivered: the row of the response of which the agent is told that it was not delivered. ``queue.agent_notes``
            writes it, ``db.queue.dead_responses`` reads it.
        replay_of: the ``message_id`` of the first run. ``db.queue.replays`` writes and reads it; ``queue.replies`` then
            sends the reply as a new message, not as the answer that the platform still waits for.
    """

    context: dict[str, Any]
    own_answer: bool
    reply_to: QuotedMessage
    edited: bool
    pieces: list[MessagePiece]
    about: AboutMessage
    only_files: str
    is_group: bool
    is_forward: bool
    hops: int
    origin: str
    asker: int
    is_answer: bool
    behalf: "AskedFor"
    deadline: int
    team: str
    line: int
    approval: str
    status: str
    label: str
    undelivered: int
    replay_of: str


class AskedFor(TypedDict):
    """Fields of ``db.queue.message_row.Message``, kept because the row may be pruned before the answer comes.

    Attributes:
        message: its text, cut.
        content: those keys that a reply to it, or an answer between agents, needs.
    """

    id: int
    message_id: str
    channel: str
    chat_id: int | None
    platform_id: str | None
    thread_id: str | None
    platform_message_id: str | None
    sender: str
    sender_id: str | None
    agent: str
    from_agent: str | None
    session_id: int
    conversation_id: str | None
    created_at: int
    message: str
    content: MessageContent


class ResponseContent(TypedDict, total=False):
    """``responses.content``: how ``deliver`` sends the response (``queue.deliveries`` makes an ``Outgoing`` of it).

    Attributes:
        reply_to: the platform's id of the message to quote. Written by ``queue.replies`` and ``queue.notices``.
        context: the ``Event.context`` of the event that the response answers. Written by the same two.
        asked_at: when that event came in, in ms UTC; 0 where the response must not use the event's token. Written with
            ``context`` and with ``click``; the default is the response's own time.
        buttons: ``[label, token]`` of each button under the last part. Written by ``access.requests``.
        edits: the message that the response replaces, with its buttons. Text is the platform's id. A number is
            ``responses.id`` of an earlier response, and means its last part. Deliver sends a new message if that one is
            unknown. Written by ``access.requests``.
        click: the ``Event.context`` of the press of a button that the response answers. An adapter puts the pressed
            message's id into its ``message_id``. With ``edits``, the press is acknowledged and the message changed.
            Without, only the person who pressed sees the response, where the platform can do that. Written by
            ``access.requests`` and ``routing.apply``.
        label: the name of a schedule. ``queue.series`` writes it, ``schedules.response_series`` reads it.
        reaction: the response is no message, but a reaction to one. ``queue.reactions`` writes it.
        bot_request: ``[request_id, name, username]`` of a bot that the person is asked to make. ``access.own_bots``
            writes it.
        origin: of what an agent writes to another place: what began the chain of its turn, see ``core.hops``. For
            readers of the rows. ``queue.teamwork.handoffs`` and ``turns.tools.places`` write it.
        poll: the response is a poll, and its text says the same in words. ``turns.tools.media`` writes it.
        sticker: the response is a sticker: the attachment of a message, as its channel's adapter gave it. Likewise.
        topic: the response begins a topic of this name, and is its first message. Likewise.
        removes: the response is no message: it removes that of an earlier response, by ``responses.id``.
            ``queue.progress`` writes it.
        ends_wait: the response is no message: its event gets no answer, and the platform stops showing that it awaits
            one. ``queue.endings`` writes it.
    """

    reply_to: str | None
    context: dict[str, Any]
    asked_at: int
    buttons: list[list[str]]
    edits: int | str | None
    click: Mapping[str, Any]
    label: str
    reaction: "Reaction"
    bot_request: list[Any]
    origin: str
    poll: "PollContent"
    sticker: dict[str, Any]
    topic: str
    removes: int
    ends_wait: bool


class PollContent(TypedDict):
    """A poll. *hours*: after which it closes."""

    question: str
    options: list[str]
    is_multiple: bool
    hours: int


class Reaction(TypedDict):
    """A reaction to a message.

    Attributes:
        emoji: None: our reaction is taken back.
        message_id: the platform's id of the message.
        row: of the response that it reacts to, where the platform's id of that one was not known yet; else None.
    """

    emoji: str | None
    message_id: str | None
    row: int | None


class ApprovalPayload(TypedDict, total=False):
    """``approvals.payload``: what happens on a yes. ``access.requests`` writes it, ``inbound.decisions`` reads it.

    Attributes:
        sender: the stranger's name (kinds ``sender`` and ``chat``). For readers of the rows.
        agents: ids of the agents on offer, in the order of the options (kind ``chat``).
        action: a name from ``access.actions`` (kind ``action``).
        arguments: of the action, or of the tool. ``access.cards`` shows them.
        facts: what the action begins from; where it has changed by the decision, nothing is done (kind ``action``).
        is_global: an admin of one agent may not decide (kinds ``action`` and ``budget``).
        why: the agent's reason. ``access.cards`` shows it.
        budget, amount, start: the row of a budget, its amount, and the start of the period (kind ``budget``).
        click: channel and key of the press that decided, by which its redelivery is known. ``db.access.approvals``.
        withdrawn: why nobody can decide any more. ``db.access.approvals`` writes it.
        tool, turn: what the program of this turn asks to use (kind ``tool``). ``access.permission_requests``.
        covers, covers_chat: what "always allow this here" would cover, and where (kind ``tool``).
        used_at, lost_at: when the turn took the yes, or had ended without it. ``db.access.permission_prompts``.
    """

    sender: str
    agents: list[str]
    action: str
    arguments: dict[str, Any]
    facts: dict[str, Any]
    is_global: bool
    why: str
    budget: int
    amount: int
    start: int
    click: str
    withdrawn: str
    tool: str
    turn: str
    covers: dict[str, Any]
    covers_chat: int | None
    used_at: int
    lost_at: int


_NAMED_FILES = 10


def files_in_words(files: Sequence[Mapping[str, Any]]) -> str:
    """What a message without a text brings along, for people and histories; empty where it brings nothing."""
    named = [_in_words(each) for each in files[:_NAMED_FILES]]
    more = [f"{len(files) - _NAMED_FILES} more"] if len(files) > _NAMED_FILES else []
    return f"({', '.join([*named, *more])})" if files else ""


def _in_words(file: Mapping[str, Any]) -> str:
    """The kind and the name of one, and the words that are spoken in it, where they are known."""
    named = " ".join(str(file[key]) for key in ("kind", "name") if file.get(key))
    return f"{named}: {file['transcript']}" if file.get("transcript") else named


def receiver(context: Mapping[str, Any]) -> str | None:
    """The one person who sees the event of this ``Event.context`` and may see its answer; None: the whole chat."""
    found: str | None = context.get(_RECEIVER)
    return found


def private_context(person: str) -> dict[str, Any]:
    """The ``Event.context`` of a message of our own that only this person may see the answer to."""
    return {_RECEIVER: person}


def private_to(content: MessageContent) -> str | None:
    """The one person who may see what comes of the message, by the platform's id; None: its whole chat.

    What an agent says about an answer goes to the person for whom it asked.
    """
    asked_for = content.get("behalf") if content.get("is_answer") else None
    origin = content if asked_for is None else asked_for["content"]
    return receiver(origin.get("context", {}))


def encode(content: MessageContent | ResponseContent | ApprovalPayload) -> str:
    """The text for the column."""
    return json.dumps(content) if content else "{}"


def decode(text: str) -> Any:
    """The dict that the column's text holds.

    Raises:
        RowInvalid: it holds no JSON object. A CHECK of the table refuses other JSON, but not for every hand and bug.
    """
    if text == "{}":
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RowInvalid(f"it should be a JSON object, and can't be read: {type(error).__name__}") from None
    if not isinstance(found, dict):
        raise RowInvalid(f"it should be a JSON object, and is {_KINDS.get(type(found), 'null')}")
    return found


_KINDS: dict[type, str] = {list: "an array", str: "a text", bool: "a boolean", int: "a number", float: "a number"}


def readable(text: str) -> Any:
    """As ``decode``, for those who show rows or end them: an empty dict where the text holds no object."""
    try:
        return decode(text)
    except RowInvalid:
        return {}


def decode_list(text: str) -> list[Any]:
    """The list that the column's text holds.

    Raises:
        RowInvalid: it holds no JSON array.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RowInvalid(f"it should be a JSON array, and can't be read: {type(error).__name__}") from None
    if not isinstance(found, list):
        raise RowInvalid("it should be a JSON array, and is other JSON")
    return found


def file_paths(text: str) -> list[str]:
    """The paths that ``responses.files`` holds, for clients that fetch responses; empty where it can't be read."""
    return [each if isinstance(each, str) else str(each.get("path", "")) for each in readable_list(text)]


def readable_list(text: str) -> list[Any]:
    """As ``decode_list``, for those who show rows or end them: an empty list where the text holds no array."""
    try:
        return decode_list(text)
    except RowInvalid:
        return []
