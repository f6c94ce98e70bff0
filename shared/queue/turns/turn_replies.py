"""What a turn says: to people, to agents and rooms, and in its agent's history."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import apsw

from shared.agents.answer_tags import HandOff
from shared.channels.base import OutgoingFile
from shared.db.queue import responses
from shared.db.queue.agent_messages import AgentMessage
from shared.db.queue.claims import Claim
from shared.db.queue.message_row import Message
from shared.queue import replies
from shared.queue.teamwork import chains, mailbox
from shared.queue.teamwork.chains import MailLimits


@dataclass(frozen=True, slots=True)
class TurnReply:
    """One reply of a turn, to one of its messages.

    Attributes:
        text: for the place that the message came from; blank where all of the reply goes elsewhere.
        tags: what the agent sends elsewhere.
        said: what its history keeps; None: the text.
        files: copies on this host, which go out with it.
        handed: copies of the files that *tags* name, by the name that the agent gave.
        problems: the sentences of *text* about files that are not sent.
    """

    text: str
    asked: Message
    tags: tuple[HandOff, ...] = ()
    said: str | None = None
    files: tuple[OutgoingFile, ...] = ()
    handed: Mapping[str, OutgoingFile] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def is_blank(self) -> bool:
        """Whether nothing is left for the place that the message came from."""
        return not self.text.strip() and not self.files


def outward(
    conn: apsw.Connection,
    agent: str,
    session_id: int,
    turn_replies: Sequence[TurnReply],
    now_ms: int,
    limits: MailLimits = chains.LIMITS,
) -> list[responses.NewResponse]:
    """The responses to people; replies to agents and rooms are stored here, a millisecond apart, and return none."""
    places = [
        (mailbox.answer(conn, each.asked, each.text, files=each.files, limits=limits, now_ms=at_ms), each)
        for at_ms, each in enumerate(turn_replies, now_ms)
    ]
    return [
        replies.response(place, each.text, agent=agent, session_id=session_id, files=each.files)
        for place, each in places
        if place is not None
    ]


def asked_lines(claim: Claim, heard: Sequence[Message]) -> list[AgentMessage]:
    """The history lines of these messages, with the instants of the messages and not of the answer.

    A message whose turn goes on with what was said is in the history since that turn ended.
    """
    return [
        AgentMessage(
            claim.agent,
            "user",
            each.channel,
            each.sender,
            each.message_id,
            each.message or each.content.get("only_files", ""),
            max(each.created_at, each.scheduled_at or 0),
            claim.session_id,
            each.sender_id,
        )
        for each in heard
        if not (each.trigger and each.spoken is not None and claim.goes_on)
    ]


def one_after_the_other(lines: Sequence[AgentMessage]) -> Iterator[AgentMessage]:
    """The lines with instants that grow, by which TinyAGI's office puts them in order."""
    at_ms = 0
    for line in lines:
        at_ms = max(line.created_at, at_ms + 1)
        yield line._replace(created_at=at_ms)


def answered_line(claim: Claim, reply: TurnReply, now_ms: int) -> AgentMessage:
    asked = reply.asked
    said = reply.text if reply.said is None else reply.said
    return AgentMessage(
        claim.agent,
        "assistant",
        asked.channel,
        claim.agent,
        asked.message_id,
        said,
        now_ms,
        claim.session_id,
        asked.sender_id,
    )
