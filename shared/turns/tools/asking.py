"""The tool that asks people a question, with buttons or for a text.

It does not wait: the answer comes as a message of its own, in a new turn.
"""

from typing import Annotated

from pydantic import Field

from shared.conversation.access import cards
from shared.core.errors import WrongState
from shared.db.access import questions
from shared.turns.tools import places
from shared.turns.tools.base import Arguments, Tool, ToolCall
from shared.turns.tools.places import SpeakingPlace
from shared.turns.tools.speaking import To

MOST_OPEN = 10  # questions of one session
_MINUTE_MS = 60_000
_WEEK_MIN = 7 * 24 * 60

Option = Annotated[str, Field(min_length=1, max_length=60)]


class AskUserQuestion(Arguments):
    question: Annotated[str, Field(min_length=1, max_length=2000)]
    options: Annotated[
        tuple[Option, ...], Field(max_length=8, description="answers to choose from; none: any text")
    ] = ()
    title: Annotated[str, Field(max_length=300)] = ""
    expires_in_minutes: Annotated[int, Field(ge=1, le=_WEEK_MIN)] = 24 * 60
    to: To = None


def _ask(call: ToolCall, given: AskUserQuestion) -> str:
    there = places.place(call, given.to)
    options = _options(given)
    if there.asked is None and not (options and there.has_buttons):
        raise WrongState(f"in {there.name} only a question with 'options' can be asked: its answer comes by a button")
    if questions.open_count(call.conn, call.session.id) >= MOST_OPEN:
        raise WrongState(f"{MOST_OPEN} questions of this conversation are open already: wait for an answer first")
    expires_at = call.now_ms + given.expires_in_minutes * _MINUTE_MS
    asked = questions.ask(
        call.conn,
        session_id=call.session.id,
        question=given.question,
        options=options,
        message_id=call.asked.message_id if call.asked is not None else None,
        expires_at=expires_at,
        now_ms=call.now_ms,
    )
    buttons = [[label, f"{asked}.{choice}"] for choice, label in enumerate(options)] if there.has_buttons else []
    text = places.words(call, _text(given, options, there))
    card = call.say(places.response(call, there, text, {"buttons": buttons} if buttons else None))
    questions.show(
        call.conn,
        asked,
        chat_id=there.chat_id,
        thread_id=there.thread_id,
        private_to=there.private_to,
        card=card,
    )
    return (
        f"Asked in {there.name} as {asked}. The answer comes as a message of its own, which names the question. "
        f"If nobody answers until {cards.when(expires_at)}, none comes."
    )


def _options(given: AskUserQuestion) -> tuple[str, ...]:
    options = tuple(" ".join(each.split()) for each in given.options)
    if len({each.casefold() for each in options}) < len(options) or "" in options:
        raise WrongState("argument 'options': each needs a text of its own")
    return options


def _text(given: AskUserQuestion, options: tuple[str, ...], there: SpeakingPlace) -> str:
    parts = [f"**{' '.join(given.title.split())}**"] if given.title.strip() else []
    parts.append(given.question)
    if options and not there.has_buttons:
        parts.append("\n".join(f"{number}. {label}" for number, label in enumerate(options, 1)))
        parts.append("Please answer with the number or the text.")
    return "\n\n".join(parts)


TOOLS = (
    Tool(
        "ask_user_question",
        "Ask the person something, with up to 8 answers to choose from as buttons, or without any for a free text. "
        "This returns at once: the answer comes later as a message of its own, which starts a new turn. Don't "
        "wait for it: end this turn, unless there is more to do without the answer.",
        AskUserQuestion,
        _ask,
        kicks=("deliver",),
    ),
)
