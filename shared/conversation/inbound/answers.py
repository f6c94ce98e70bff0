"""The answer to an agent's question by a button or a reaction: it comes back to the session that asked, as a message.

The first press counts. Knowing a token proves nothing: the press must come from the chat where the question stands, by
a person who may talk to the agent there. A redelivered press does nothing more.
"""

import json
import re
from collections.abc import Sequence

import apsw

from shared.channels.base import Event
from shared.conversation.access import cards, people, rules
from shared.conversation.routing.apply import Routed, apply
from shared.conversation.routing.effects import Drop, Say
from shared.core import content, ids
from shared.core.content import MessageContent, ResponseContent
from shared.core.errors import WrongState
from shared.core.policy import AccessPolicy
from shared.db.access import questions
from shared.db.access.questions import Question
from shared.db.queue import messages, responses, sessions
from shared.db.queue.messages import NewMessage
from shared.db.queue.responses import NewResponse
from shared.db.queue.sessions import Session
from shared.db.roster import agents, chats, wirings
from shared.db.roster.chats import Chat
from shared.queue import answers

_TOKEN = re.compile(r"(question_[0-9a-z]{8})\.([0-9])")
_THUMBS = {"👍": "yes", "👎": "no"}
_NOT_YOURS = "This question is not for you."
_NOT_HERE = "You can't answer this: the agent that asked does not answer in this chat, and does not know you."
_GONE = "Too late: the agent that asked is gone."


def click(conn: apsw.Connection, channel: str, event: Event, *, policy: AccessPolicy, now_ms: int) -> Routed | None:
    """Handle a pressed button; None if no question has this button. A press that answers nothing is told why."""
    token = _TOKEN.fullmatch(event.text)
    question = questions.get(conn, token[1]) if token else None
    if token is None or question is None or int(token[2]) >= len(question.options):
        return None
    key = json.dumps([channel, event.event_key])
    if question.click == key:
        return Routed(duplicates=1)
    chat = chats.find(conn, channel, event.platform_id or "")
    session = sessions.known(conn, question.session_id)
    if chat is None or chat.id != question.chat_id or not _may_answer(conn, chat, session, question, event):
        sentence = _why_not(conn, chat, session, question, event)
        return _refuse(conn, channel, event, "not_asked", sentence, policy, now_ms)
    if agents.get(conn, session.agent) is None:
        return _refuse(conn, channel, event, "question_closed", _GONE, policy, now_ms)
    chosen = question.options[int(token[2])]
    try:
        questions.answer(conn, question.question_id, chosen, answered_by=event.sender, click=key, now_ms=now_ms)
    except WrongState:
        return _refuse(conn, channel, event, "question_closed", _too_late(question), policy, now_ms)
    _give_back(conn, channel, event, question, session, chosen, now_ms=now_ms)
    _close_card(conn, chat, event, question, chosen, {"click": event.context, "asked_at": now_ms}, now_ms=now_ms)
    return Routed(stored=1, said=True)


def react(conn: apsw.Connection, channel: str, event: Event, chat: Chat, card: int, *, now_ms: int) -> Routed | None:
    """Handle a reaction to the response in row *card*; None if it answers no question: then it is context.

    Agreed is what the person can read on the card: an option that begins with the emoji, or *Yes* and *No* for a thumb.
    """
    question = questions.of_card(conn, card)
    added = event.context.get("added")
    chosen = _reacted(question.options, added) if question is not None else None
    if question is None or chosen is None:
        return None
    session = sessions.known(conn, question.session_id)
    if agents.get(conn, session.agent) is None or not _may_answer(conn, chat, session, question, event):
        return None
    key = json.dumps([channel, event.event_key])
    try:
        questions.answer(conn, question.question_id, chosen, answered_by=event.sender, click=key, now_ms=now_ms)
    except WrongState:
        return None
    _give_back(conn, channel, event, question, session, chosen, now_ms=now_ms)
    _close_card(conn, chat, event, question, chosen, {}, now_ms=now_ms)
    return Routed(stored=1, said=True)


def _reacted(options: Sequence[str], added: object) -> str | None:
    """The option that the only added emoji chooses. Pure."""
    if not isinstance(added, list) or len(added) != 1:
        return None
    emoji = str(added[0])
    word = _THUMBS.get(emoji)
    return next((each for each in options if each.startswith(emoji) or each.casefold() == word), None)


def _may_answer(conn: apsw.Connection, chat: Chat, session: Session, question: Question, event: Event) -> bool:
    if question.private_to is not None and question.private_to != event.sender_id:
        return False
    wired = wirings.get(conn, chat.id, session.agent)
    scope = wired.sender_scope if wired is not None else "known"
    sender = people.standing(conn, chat.channel, event.sender_id)
    policy = chat.sender_policy if wired is not None else "strict"
    return rules.admits(policy, scope, sender, session.agent, has_id=event.sender_id is not None)[0] == "allow"


def _why_not(conn: apsw.Connection, chat: Chat | None, session: Session, question: Question, event: Event) -> str:
    """The sentence for a person who may not answer. Only one who was asked, where they were, hears of the agent."""
    if chat is None or chat.id != question.chat_id or question.private_to not in (None, event.sender_id):
        return _NOT_YOURS
    return _NOT_HERE if wirings.get(conn, chat.id, session.agent) is None else _NOT_YOURS


def _too_late(question: Question) -> str:
    if question.status == "answered":
        return f"Already answered: {question.answer}."
    return "Too late: nobody answered in time, and the agent no longer waits."


def _refuse(
    conn: apsw.Connection, channel: str, event: Event, reason: str, sentence: str, policy: AccessPolicy, now_ms: int
) -> Routed:
    effect = Drop(reason, (Say(sentence, click=event.context),))
    return apply(conn, channel, event, [effect], policy=policy, now_ms=now_ms)


def _give_back(
    conn: apsw.Connection, channel: str, event: Event, question: Question, asking: Session, chosen: str, *, now_ms: int
) -> None:
    """Store the answer for the session that asked, or for its successor; what follows is said where it is."""
    place = chats.get(conn, asking.chat_id if asking.chat_id is not None else question.chat_id or 0)
    carried: MessageContent = {"reply_to": {"text": answers.named(question)}}
    if asking.private_to is not None:
        carried["context"] = content.private_context(asking.private_to)
    new = NewMessage(
        id_prefix=channel,
        channel=place.channel if place is not None else channel,
        chat_id=place.id if place is not None else None,
        platform_id=place.platform_id if place is not None else event.platform_id,
        thread_id=asking.thread_id if asking.chat_id is not None else question.thread_id,
        sender=event.sender,
        sender_id=event.sender_id,
        message=chosen,
        content=content.encode(carried),
        agent=asking.agent,
        session_id=sessions.ensure(
            conn,
            *(asking.agent, asking.chat_id, asking.thread_id),
            private_to=asking.private_to,
            series_id=asking.series_id,
            now_ms=now_ms,
        ),
    )
    messages.enqueue(conn, new, now_ms=now_ms)


def _close_card(
    conn: apsw.Connection,
    chat: Chat,
    event: Event,
    question: Question,
    chosen: str,
    press: ResponseContent,
    *,
    now_ms: int,
) -> None:
    """Replace the question by the question and its answer, without buttons; acknowledges the *press*, if it was one."""
    by = cards.escape(cards.line(event.sender, cards.LONGEST_NAME))
    text = f"{question.question}\n\n**{cards.escape(cards.line(chosen))}** ({by})"
    new = NewResponse(
        message_id=ids.new("proactive"),
        channel=chat.channel,
        chat_id=chat.id,
        platform_id=chat.platform_id,
        thread_id=question.thread_id,
        sender="",
        message=text,
        content=content.encode({"edits": question.card, **press}),
    )
    responses.enqueue(conn, new, now_ms=now_ms)
