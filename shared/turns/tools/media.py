"""Tools for what platforms have beyond text and files: a voice message, …

Where the platform has no such thing, the tool says so in a sentence, or sends the text that people can read instead.
"""

from typing import Annotated

from pydantic import Field

from shared.channels import outgoing_files
from shared.turns.tools import places
from shared.turns.tools.base import Arguments, SpokenText, Tool, ToolCall
from shared.turns.tools.speaking import To

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


TOOLS = (
    Tool(
        "send_voice",
        "Say something as a voice message, while you go on working: for example to a person who sent you one. The text "
        "stands below it. Where nothing speaks for you, or the channel takes no sound, the text alone is sent, and the "
        "answer says so. Answers with the number of the message.",
        SendVoice,
        _send_voice,
        kicks=("deliver",),
        speaks=_speak,
    ),
)
