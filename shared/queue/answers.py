"""The answer to an agent's question by text, where there are no buttons or a person writes instead of pressing.

The message runs as any other; its turn is told which question it answers. A retry of the turn is told the same, because
the row of the question names the message.
"""

from collections.abc import Sequence

import apsw

from shared.db.access import questions
from shared.db.access.questions import Question
from shared.db.queue.message_row import Message


def named(question: Question) -> str:
    """The question as the prompt quotes it beside its answer."""
    return f"{question.question} ({question.question_id})"


def chosen(question: Question, text: str) -> str | None:
    """The answer in *text*: an option or its number, or any text where there are no options; else None. Pure."""
    said = " ".join(text.split())
    if not question.options:
        return said or None
    by_text = {option.casefold(): option for option in question.options}
    by_number = {str(number): option for number, option in enumerate(question.options, 1)}
    return by_text.get(said.casefold()) or by_number.get(said.rstrip("."))


def find(conn: apsw.Connection, session_id: int, batch: Sequence[Message]) -> dict[int, Question]:
    """The questions that messages of the batch have answered, or answer now, by the row of the message."""
    found = questions.of_turn(conn, session_id, [message.id for message in batch])
    answered = {row: question for question, row in found if row is not None}
    still_open = [question for question, row in found if row is None]
    for message in batch:
        question = next((each for each in reversed(still_open) if _answers(message, each)), None)
        if message.id not in answered and question is not None:
            answered[message.id] = question
            still_open.remove(question)
    return answered


def _answers(message: Message, question: Question) -> bool:
    is_of_person = message.trigger and message.kind == "chat" and message.from_agent is None
    is_there = (message.chat_id, message.thread_id) == (question.chat_id, question.thread_id)
    is_after = question.created_at <= message.created_at < question.expires_at
    return is_of_person and is_there and is_after and chosen(question, message.message) is not None


def keep(conn: apsw.Connection, answered: dict[int, Question], batch: Sequence[Message], *, now_ms: int) -> None:
    """Write on the rows of open questions which message answers each.

    Raises:
        NotFound, WrongState: one was answered or cancelled meanwhile.
    """
    for message in batch:
        question = answered.get(message.id)
        if question is not None and question.status == "open":
            questions.answer(
                conn,
                question.question_id,
                chosen(question, message.message) or message.message,
                answered_by=message.sender,
                answered_in=message.id,
                now_ms=min(now_ms, question.expires_at - 1),  # it was written in time, whenever its turn begins
            )
