"""Tools that say something to people: a message, a card, a file, a reaction, a change of what was said."""

from typing import Annotated

from pydantic import Field

from shared.channels import outgoing_files
from shared.core.errors import NotFound
from shared.db.views import own_responses
from shared.db.views.own_responses import OwnResponse
from shared.queue import edits, reactions
from shared.turns.tools import places
from shared.turns.tools.base import Arguments, HandedOver, NotPossibleYet, Tool, ToolCall

_LARGEST_ROW = 2**63 - 1

Text = Annotated[str, Field(min_length=1, max_length=50_000, description="Markdown; long texts are split for you")]
Line = Annotated[str, Field(min_length=1, max_length=300)]
To = Annotated[
    str | None,
    Field(default=None, min_length=1, max_length=64, description="a destination's name; left out: here"),
]
MessageNumber = Annotated[int, Field(ge=1, le=_LARGEST_ROW, description="the number that send_message gave")]


# -- send_message -----------------------------------------------------------------------------------------------------


class SendMessage(Arguments):
    text: Text
    to: To = None


def _send_message(call: ToolCall, given: SendMessage) -> str:
    there = places.place(call, given.to)
    row = call.say(places.response(call, there, places.words(call, given.text)))
    return f"Sent to {there.name} as message {row}."


# -- send_card --------------------------------------------------------------------------------------------------------


class CardField(Arguments):
    name: Line
    value: Annotated[str, Field(min_length=1, max_length=1000)]


class CardLink(Arguments):
    label: Line
    url: Annotated[str, Field(pattern=r"^https?://[^\s<>()\[\]]+$", max_length=2000, description="http or https")]


class SendCard(Arguments):
    title: Line
    text: Annotated[str, Field(max_length=10_000, description="Markdown below the title")] = ""
    fields: Annotated[tuple[CardField, ...], Field(max_length=25, description="facts, one a line")] = ()
    links: Annotated[tuple[CardLink, ...], Field(max_length=10, description="links below the card")] = ()
    to: To = None


def _send_card(call: ToolCall, given: SendCard) -> str:
    there = places.place(call, given.to)
    row = call.say(places.response(call, there, places.words(call, _card(given))))
    return f"Sent to {there.name} as message {row}."


def _card(given: SendCard) -> str:
    """The card as Markdown, which every channel shows. Pure."""
    paragraphs = [f"**{_on_one_line(given.title)}**", given.text.strip()]
    paragraphs.append("\n".join(f"- **{_on_one_line(each.name)}**: {each.value.strip()}" for each in given.fields))
    paragraphs.append("\n".join(f"- [{_label(each.label)}]({each.url})" for each in given.links))
    return "\n\n".join(each for each in paragraphs if each)


def _on_one_line(text: str) -> str:
    return " ".join(text.split()).replace("*", r"\*")


def _label(text: str) -> str:
    return " ".join(text.split()).replace("[", r"\[").replace("]", r"\]")


# -- edit_message -----------------------------------------------------------------------------------------------------


class EditMessage(Arguments):
    message: MessageNumber
    text: Text


def _edit_message(call: ToolCall, given: EditMessage) -> str:
    said = _said(call, given.message)
    text = places.words(call, given.text)
    row = call.say(edits.of(said, text, agent=call.agent.id, session_id=call.session.id))
    return f"Message {said.id} will show the new text. To change it again, edit message {row}."


def _said(call: ToolCall, row: int) -> OwnResponse:
    """What the agent said in this conversation.

    Raises:
        NotFound: it said no such thing here.
    """
    said = own_responses.get(call.conn, row)
    if said is None or (said.agent, said.session_id) != (call.agent.id, call.session.id):
        raise NotFound(f"you sent no message {row} in this conversation; send_message gives the number")
    return said


# -- send_file ---------------------------------------------------------------------------------------------------------


class SendFileArguments(Arguments):
    path: Annotated[str, Field(min_length=1, max_length=1000, description="the file, in your outbox")]
    text: Annotated[str, Field(max_length=10_000, description="a caption")] = ""
    to: To = None


def _hand_over(call: ToolCall, given: SendFileArguments) -> HandedOver:
    there = places.place(call, given.to)
    taker = places.file_taker(call, there)
    if not taker.takes_files:
        raise NotPossibleYet(
            f"files can't be sent to {there.name} ({there.channel}), and nothing was sent: put what matters of the "
            "file into a message"
        )
    return HandedOver(given.path, taker)


def _send_file(call: ToolCall, given: SendFileArguments) -> str:
    file = call.file
    assert file is not None  # noqa: S101 - ``_hand_over`` named it
    there = places.place(call, given.to)
    text = places.words(call, given.text) if given.text.strip() else ""
    row = call.say(places.response(call, there, text)._replace(files=outgoing_files.encode([file])))
    return f"Sent {file.name} to {there.name} as message {row}."


# -- add_reaction ------------------------------------------------------------------------------------------------------


class AddReaction(Arguments):
    message: Annotated[
        str,
        Field(
            min_length=1,
            max_length=200,
            description="the id of the message to react to, or the number of one that you sent",
        ),
    ]
    emoji: Annotated[str, Field(min_length=1, max_length=32, description="one emoji")]
    remove: Annotated[bool, Field(description="take your reaction back")] = False


def _add_reaction(call: ToolCall, given: AddReaction) -> str:
    emoji = None if given.remove else given.emoji
    agent, session = call.agent.id, call.session.id
    if given.message.isdecimal() and int(given.message) <= _LARGEST_ROW:
        said = _said(call, int(given.message))
        call.say(reactions.to_response(said, emoji, agent=agent, session_id=session))
    else:
        asked = reactions.message(call.conn, given.message)
        if asked.session_id != session:
            raise NotFound(f"there is no message {given.message!r} in this conversation")
        call.say(reactions.to_message(asked, emoji, agent=agent, session_id=session))
    return "Your reaction is taken back." if given.remove else f"Reacted with {given.emoji}."


TOOLS = (
    Tool(
        "send_message",
        "Send a message now, while you go on working: to this conversation (leave out 'to'), or to a chat that "
        "list_destinations names. Your final answer goes to this conversation by itself, so don't send it here too. "
        "Answers with the number of the message.",
        SendMessage,
        _send_message,
        kicks=("deliver",),
    ),
    Tool(
        "send_card",
        "Send a short overview with a title, facts and links. For a question use ask_user_question.",
        SendCard,
        _send_card,
        kicks=("deliver",),
    ),
    Tool(
        "edit_message",
        "Replace the text of a message that you sent in this conversation with send_message, for example to show "
        "progress. The message stays where it is.",
        EditMessage,
        _edit_message,
        kicks=("deliver",),
    ),
    Tool(
        "send_file",
        "Send a file from your outbox now, while you go on working, with a caption if you like. Where the channel "
        "can't carry files, or not such a large one, the answer says so.",
        SendFileArguments,
        _send_file,
        kicks=("deliver",),
        hands_over=_hand_over,
    ),
    Tool(
        "add_reaction",
        "React to a message with an emoji: your newest reaction to it counts. Where the channel can't do that, or "
        "takes other emoji only, the answer says so.",
        AddReaction,
        _add_reaction,
        kicks=("deliver",),
    ),
)
