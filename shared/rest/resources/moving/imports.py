"""Moving in from another program: the whole plan in one transaction, and then the files of the agents, one by one."""

from typing import Literal

import apsw
from pydantic import Field
from typing_extensions import TypedDict

from shared.agents import own_files
from shared.core.time import clock
from shared.rest.http.endpoint import Body, Query, RequestRefused, endpoint
from shared.rest.http.service import Service
from shared.rest.resources.agents import folder_of, refuse_free_programs
from shared.rest.resources.moving.apply_plan import ImportedItem, PlanWork
from shared.rest.resources.moving.plan import ImportBody
from shared.roster.agents_and_teams import known_agent

_LARGEST_PLAN = 4 * 1024 * 1024  # bytes: it is sent whole, so that all of it is made or nothing


class CheckQuery(Query):
    """*check*: answer alike, and change nothing."""

    check: bool = False


class DoneImport(TypedDict):
    """All parts of the plan, in order."""

    ok: Literal[True]
    items: list[ImportedItem]


class FileBody(Body):
    """*path*: below the agent's folder, such as ``memory/people.md``."""

    path: str = Field(min_length=1, max_length=500)
    text: str


class SavedFile(TypedDict):
    """*state*: the file was ``made``, is ``there`` with this text, or is ``other``: with another text, which stays."""

    ok: Literal[True]
    state: Literal["made", "there", "other"]


class _Checked(Exception):
    """The whole plan is possible. It is thrown so that the transaction is rolled back."""


@endpoint(
    "POST",
    "/api/imports",
    {400: "a part of the plan is not possible; the error names each, and why"},
    most_bytes=_LARGEST_PLAN,
)
async def post_import(service: Service, *, body: ImportBody, query: CheckQuery) -> DoneImport:
    """Make everything of the plan that is not there yet, in one transaction. What is there stays as it is."""
    refuse_free_programs(
        service.settings, [str(agent.model_dump().get("provider") or "") for agent in body.agents.values()]
    )

    def work(conn: apsw.Connection) -> list[ImportedItem]:
        items = PlanWork(conn, body, service, now_ms=clock.now_ms()).run()
        if query.check:
            raise _Checked(items)
        return items

    try:
        items = await service.change(work, "dispatch", "deliver")
    except _Checked as checked:
        items = checked.args[0]
    return {"ok": True, "items": items}


@endpoint(
    "PUT",
    "/api/agents/{id}/files",
    {404: "there is no such agent", 409: "the agent's folder can't be used; the error says why"},
)
async def put_file(service: Service, *, id: str, body: FileBody) -> SavedFile:
    """Write a text file into the agent's folder, where there is none of this name yet. No program gets its text by it.

    Hidden files, and those that programs read by themselves (``AGENTS.md``, ``CLAUDE.md``), are refused.
    """
    folder = folder_of(known_agent(service.reader, id), service.settings)
    _check_path(body.path)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    wanted = body.text.encode()
    try:
        parent, _, name = body.path.rpartition("/")
        with own_files.folder(folder, parent, make=True) as fd:
            state = own_files.write_new(fd, name, wanted)
    except OSError as error:
        raise RequestRefused(409, f"{body.path} can't be written in {folder}: {error.strerror}") from None
    return {"ok": True, "state": state}


def _check_path(path: str) -> None:
    parts = path.split("/")
    if not path.isprintable() or any(part in ("", "..") or part.startswith(".") for part in parts):
        raise RequestRefused(400, f"path: {path!r} is not a path of visible files below the agent's folder")
    if own_files.is_read_by_programs(path):
        raise RequestRefused(400, f"path: programs read {parts[-1]} by themselves: send the text as instructions")


ENDPOINTS = (post_import, put_file)
