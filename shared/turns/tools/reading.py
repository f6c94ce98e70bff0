"""Tools that read: what was said in this conversation, the thread of a message between agents, a skill."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field

from shared.agents import skills
from shared.core.errors import NotFound
from shared.db.queue import agent_messages, messages
from shared.db.queue.mailbox import MailboxMessage
from shared.queue.teamwork import mailbox
from shared.turns.tools.base import Arguments, Tool, ToolCall

_LONGEST = 2000  # characters of one line


class ReadThread(Arguments):
    message: Annotated[
        str | None,
        Field(
            default=None, min_length=1, max_length=200, description="the id of a message of an agent, for its thread"
        ),
    ] = None
    limit: Annotated[int, Field(ge=1, le=100, description="the newest lines, at most")] = 20


def _read(call: ToolCall, given: ReadThread) -> str:
    if given.message is None:
        lines = agent_messages.of_session(call.conn, call.agent.id, call.session.id, limit=given.limit)
        said = [_line(each.created_at, each.sender, each.content) for each in lines]
    else:
        thread = _thread(call, given.message)
        said = [
            _line(each.message.created_at, each.message.from_agent or each.message.sender, each.message.message)
            for each in thread[-given.limit :]
        ]
    return "\n".join(said) if said else "Nothing was said here before."


def _thread(call: ToolCall, message_id: str) -> list[MailboxMessage]:
    """The thread of a message of this conversation.

    Raises:
        NotFound: there is no such message, or it is not of this conversation.
    """
    row = messages.find(call.conn, message_id)
    thread = mailbox.thread(call.conn, row) if row is not None else []
    if not any(each.message.id == row and _is_own(call, each) for each in thread):
        raise NotFound(f"this conversation has no message {message_id!r}")
    return thread


def _is_own(call: ToolCall, stored: MailboxMessage) -> bool:
    """Whether this conversation got the message, or sent it to another agent."""
    message = stored.message
    if message.session_id == call.session.id:
        return True
    return message.from_agent == call.agent.id and message.content.get("asker") == call.session.id


def _line(at_ms: int, sender: str, text: str) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… (+{len(text) - _LONGEST} characters)"
    return f"[{at}] {sender}: {shown}"


class ReadSkill(Arguments):
    name: Annotated[str, Field(min_length=1, max_length=64, description="the skill's name")]
    file: Annotated[
        str, Field(min_length=1, max_length=200, description="another file of the skill, that its text names")
    ] = skills.FILE


def _read_skill(call: ToolCall, given: ReadSkill) -> str:
    return skills.read(call.folder, given.name, given.file)


TOOLS = (
    Tool(
        "read_thread",
        "Read what was said before in this conversation, oldest first; or, with the id of a message of another agent, "
        "the whole thread with that agent.",
        ReadThread,
        _read,
        reads=True,
    ),
    Tool(
        "read_skill",
        "Read the instructions of one of your skills, before you do that kind of work. Your instructions list them.",
        ReadSkill,
        _read_skill,
        reads=True,
    ),
)
