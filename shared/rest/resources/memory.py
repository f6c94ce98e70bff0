"""What an agent knows and remembers: its ``MEMORY.md``, its skills, and the lines that it wrote down itself."""

from pathlib import Path

import apsw
from typing_extensions import TypedDict

from shared.agents import memory, skills
from shared.core.errors import ConfigInvalid, NotFound
from shared.core.time import clock
from shared.db.roster import memory_lines
from shared.db.roster.memory_lines import MemoryRow
from shared.queue import forgetting
from shared.rest.http.common import OK, Ok
from shared.rest.http.endpoint import Query, endpoint
from shared.rest.http.service import Service
from shared.roster.agents_and_teams import known_agent

_UNKNOWN = {404: "there is no such agent"}


class SkillView(TypedDict):
    """A skill of the agent's folder, in TinyAGI's shape; *id* is its name."""

    id: str
    name: str
    description: str


class MemoryFileView(TypedDict):
    """A file of the agent's memory."""

    name: str
    path: str


class MemoryPersonView(TypedDict):
    """A person whose message stood in the turn that wrote a line."""

    channel: str
    senderId: str | None
    sender: str


class MemoryLineView(TypedDict):
    """A line that the agent wrote down.

    *isShared*: all its conversations without strangers read it; otherwise only the one of its turn. *withStrangers*:
    people whom the agent does not know had written in that conversation. *turn* and *messageId*: null where an
    operator called the tool.
    """

    id: str
    text: str
    by: str
    people: list[MemoryPersonView]
    isShared: bool
    withStrangers: bool
    sessionId: int
    turn: str | None
    messageId: str | None
    createdAt: int


class MemoryView(TypedDict):
    """TinyAGI's ``index``, ``files`` and ``memoryDir``, and *lines*, oldest first.

    *index*: what prompts have of ``MEMORY.md``; *leftOut*: the bytes at its end that they have not.
    """

    index: str
    files: list[MemoryFileView]
    memoryDir: str
    leftOut: int
    lines: list[MemoryLineView]


class ForgottenLines(TypedDict):
    """How many lines were deleted."""

    ok: bool
    deleted: int


class PersonQuery(Query):
    """*senderId*: only the lines from turns with a message of this person on *channel*, and those of the history."""

    channel: str | None = None
    senderId: str | None = None


def _folder(service: Service, agent_id: str) -> Path:
    agent = known_agent(service.reader, agent_id)
    return (service.settings.agents_dir / (agent.folder or agent.id)).absolute()


@endpoint("GET", "/api/agents/{id}/skills", _UNKNOWN)
async def get_skills(service: Service, *, id: str) -> list[SkillView]:
    """List the skills in the agent's folder, as its prompts name them."""
    found = skills.of_agent(_folder(service, id))
    return [{"id": each.name, "name": each.name, "description": each.description} for each in found]


@endpoint("GET", "/api/agents/{id}/memory", _UNKNOWN)
async def get_memory(service: Service, *, id: str) -> MemoryView:
    """Read what the agent remembers, of all its conversations."""
    folder = _folder(service, id)
    kept = memory.read(folder)
    files: list[MemoryFileView] = [{"name": memory.NAME, "path": str(folder / memory.NAME)}] if kept.text else []
    lines = [_line(each) for each in memory_lines.of_agent(service.reader, id)]
    return {
        "index": kept.text,
        "files": files,
        "memoryDir": str(folder),
        "leftOut": kept.left_out,
        "lines": lines,
    }


def _line(row: MemoryRow) -> MemoryLineView:
    return {
        "id": row.line_id,
        "text": row.text,
        "by": row.by,
        "people": [{"channel": each.channel, "senderId": each.sender_id, "sender": each.sender} for each in row.people],
        "isShared": row.is_shared,
        "withStrangers": row.with_strangers,
        "sessionId": row.session_id,
        "turn": row.turn,
        "messageId": row.message_id,
        "createdAt": row.created_at,
    }


@endpoint("DELETE", "/api/agents/{id}/memory", {**_UNKNOWN, 400: "only one of channel and senderId is given"})
async def delete_memory(service: Service, *, id: str, query: PersonQuery) -> ForgottenLines:
    """Delete every line that the agent remembers, or what it keeps of one person's messages, in its history too."""

    def work(conn: apsw.Connection) -> int:
        known_agent(conn, id)
        if query.channel is not None and query.senderId is not None:
            gone = forgetting.forget(conn, [id], query.channel, query.senderId, now_ms=clock.now_ms())
            return gone.remembered + gone.said
        if query.channel is not None or query.senderId is not None:
            raise ConfigInvalid("name the person by both channel and senderId, as 'emulator memory show' lists them")
        return memory_lines.delete(conn, id, [each.line_id for each in memory_lines.of_agent(conn, id)])

    return {"ok": True, "deleted": await service.change(work)}


@endpoint("DELETE", "/api/agents/{id}/memory/{line}", {404: "there is no such agent, or it has no such line"})
async def delete_memory_line(service: Service, *, id: str, line: str) -> Ok:
    """Delete one line that the agent remembers."""

    def work(conn: apsw.Connection) -> None:
        known_agent(conn, id)
        if not memory_lines.delete(conn, id, [line]):
            raise NotFound(f"agent {id!r} remembers no line {line!r}; GET /api/agents/{id}/memory lists them")

    await service.change(work)
    return OK


ENDPOINTS = (get_skills, get_memory, delete_memory, delete_memory_line)
