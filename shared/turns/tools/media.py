"""Tools for what platforms have beyond text and files: voice messages, polls, stickers, topics.

Where the platform has no such thing, the tool says so in a sentence, or sends the text that people can read instead.
"""

import json
from typing import Annotated, Any

from pydantic import Field

from shared.channels import outgoing_files, registry
from shared.core import content
from shared.core.content import ResponseContent
from shared.core.errors import ConfigInvalid, NotFound
from shared.db.queue import messages
from shared.queue import reactions
from shared.turns.tools import places
from shared.turns.tools.base import Arguments, NotPossibleYet, SpokenText, Tool, ToolCall
from shared.turns.tools.places import SpeakingPlace
from shared.turns.tools.speaking import Text, To

# -- send_voice --------------------------------------------------------------------------------------------------------


class SendVoice(Arguments):
    text: Annotated[
        str, Field(min_length=1, max_length=4000, description="what to say, in plain words, without Markdown")
    ]
    to: To = None


def _speak(call: ToolCall, given: SendVoice) -> SpokenText:
    there = places.place(call, given.to)
    return SpokenText(places.words(call, given.text), places.file_taker(call, there))


def _send_voice(call: ToolCall, given: SendVoice) -> str:
    there = places.place(call, given.to)
    response = places.response(call, there, places.words(call, given.text))
    if call.file is None:
        return f"Sent to {there.name} as message {call.say(response)}, as text alone: {call.why_no_sound}."
    row = call.say(response._replace(files=outgoing_files.encode([call.file])))
    return f"Sent to {there.name} as message {row}: spoken, with the text below it."


# -- send_poll ---------------------------------------------------------------------------------------------------------


class SendPoll(Arguments):
    question: Annotated[str, Field(min_length=1, max_length=300)]
    options: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=100)], ...], Field(min_length=2, max_length=12)
    ]
    multiple: Annotated[bool, Field(description="a person may choose several options")] = False
    hours: Annotated[int, Field(ge=1, le=720, description="after which it closes")] = 24
    to: To = None


def _send_poll(call: ToolCall, given: SendPoll) -> str:
    there = places.place(call, given.to)
    limits = registry.traits(there.channel).polls
    if limits is None or there.chat_id is None:
        raise _not_there("polls", there, "use ask_user_question, or write the options into a message")
    if there.private_to is not None:
        raise _not_there("polls for one person alone", there, "use ask_user_question")
    options = [" ".join(each.split()) for each in given.options]
    if not all(options) or len(set(options)) < len(options):
        raise ConfigInvalid("argument 'options': each must say something, and no two the same")
    if len(options) > limits.most_options or max(map(len, options)) > limits.longest_option:
        raise ConfigInvalid(
            f"argument 'options': {there.channel} takes up to {limits.most_options} options of up to "
            f"{limits.longest_option} characters"
        )
    question = " ".join(places.words(call, given.question).split())
    text = "\n".join([question, *(f"- {each}" for each in options)])
    poll: ResponseContent = {
        "poll": {"question": question, "options": options, "is_multiple": given.multiple, "hours": given.hours}
    }
    row = call.say(places.response(call, there, text, poll))
    return f"Sent to {there.name} as message {row}. People see the votes there; you do not."


# -- send_sticker ------------------------------------------------------------------------------------------------------


class SendSticker(Arguments):
    message: Annotated[
        str, Field(min_length=1, max_length=200, description="the id of a message here that brought the sticker")
    ]
    to: To = None


def _send_sticker(call: ToolCall, given: SendSticker) -> str:
    there = places.place(call, given.to)
    if not registry.traits(there.channel).has_stickers or there.chat_id is None:
        raise _not_there("stickers", there, "send an emoji, or add_reaction")
    sticker = _sticker_of(call, given.message, there)
    row = call.say(places.response(call, there, str(sticker.get("emoji") or "(sticker)"), {"sticker": sticker}))
    return f"Sent to {there.name} as message {row}."


def _sticker_of(call: ToolCall, message_id: str, there: SpeakingPlace) -> dict[str, Any]:
    """The sticker that came with a message of this conversation.

    Raises:
        NotFound: it brought none, or is gone.
    """
    brought = reactions.message(call.conn, message_id)
    if brought.session_id != call.session.id:
        raise NotFound(f"there is no message {message_id!r} in this conversation")
    files = content.readable_list(messages.files(call.conn, brought.id))
    stickers = [each for each in files if isinstance(each, dict) and each.get("kind") == "sticker"]
    if not stickers or brought.channel != there.channel:
        raise NotFound(f"message {message_id!r} brought no sticker that {there.channel} could show: name one that did")
    found: dict[str, Any] = stickers[0]
    return found


# -- create_topic ------------------------------------------------------------------------------------------------------


class CreateTopic(Arguments):
    name: Annotated[str, Field(min_length=1, max_length=100, description="the topic's name")]
    text: Text
    to: To = None


def _create_topic(call: ToolCall, given: CreateTopic) -> str:
    there = places.place(call, given.to)
    if not registry.traits(there.channel).makes_topics or there.chat_id is None or there.private_to is not None:
        raise _not_there("topics", there, "write a message instead")
    name = " ".join(places.words(call, given.name).split())
    new = places.response(call, there, places.words(call, given.text))
    begun: ResponseContent = {"topic": name}  # it answers nobody: nothing of the event's own place may draw it there
    row = call.say(new._replace(thread_id=None, content=json.dumps(begun)))
    return (
        f"The topic {name!r} begins in {there.name} with your message {row}. What people write there comes from there. "
        "If the chat has no topics, you are notified."
    )


def _not_there(what: str, there: SpeakingPlace, instead: str) -> NotPossibleYet:
    return NotPossibleYet(f"{what} can't be sent to {there.name} ({there.channel}), and nothing was sent: {instead}")


TOOLS = (
    Tool(
        "send_voice",
        "Say something as a voice message, while you go on working: for example to a person who sent you one. The text "
        "stands below it. Where nothing speaks for you, or the channel takes no sound, the text alone is sent, and the "
        "answer says so.",
        SendVoice,
        _send_voice,
        kicks=("deliver",),
        speaks=_speak,
    ),
    Tool(
        "send_poll",
        "Ask all people of a chat to vote, where the platform has polls. For a question whose answer you need, use "
        "ask_user_question.",
        SendPoll,
        _send_poll,
        kicks=("deliver",),
    ),
    Tool(
        "send_sticker",
        "Send a sticker that came with a message of this conversation, where the platform has stickers.",
        SendSticker,
        _send_sticker,
        kicks=("deliver",),
    ),
    Tool(
        "create_topic",
        "Begin a topic (a thread) of its own in a chat, with a first message, where the platform has topics.",
        CreateTopic,
        _create_topic,
        kicks=("deliver",),
    ),
)
