"""Reactions to messages, and changes of what was sent, in the name of the agent."""

from collections.abc import Callable
from typing import Annotated

import apsw
from pydantic import Field

from shared.core.errors import NotFound
from shared.core.time import clock
from shared.db.queue import responses
from shared.db.queue.responses import NewResponse
from shared.db.views import own_responses
from shared.db.views.own_responses import OwnResponse
from shared.queue import edits, reactions
from shared.rest.http.endpoint import Body, endpoint
from shared.rest.http.service import Service
from shared.rest.resources.messages import Stored

Emoji = Annotated[str, Field(min_length=1, max_length=32)]


class ReactionBody(Body):
    """*emoji*: null takes the reaction back."""

    emoji: Emoji | None = Field(description="null takes the reaction back")


class EditBody(Body):
    """*message*: the text that replaces the old one, as Markdown."""

    message: str = Field(min_length=1)


_REFUSALS = {400: "the channel does not take this emoji", 409: "the channel can't do that to this message"}


@endpoint("POST", "/api/messages/{id}/reaction", {404: "there is no such message", **_REFUSALS})
async def react_to_message(service: Service, *, id: str, body: ReactionBody) -> Stored:
    """React to a message that a person sent, as its agent."""

    def new(conn: apsw.Connection) -> NewResponse:
        asked = reactions.message(conn, id)
        return reactions.to_message(asked, body.emoji, agent=asked.agent, session_id=asked.session_id)

    return await _enqueue(service, new)


@endpoint("POST", "/api/responses/{id}/reaction", {404: "there is no such response", **_REFUSALS})
async def react_to_response(service: Service, *, id: int, body: ReactionBody) -> Stored:
    """React to a message that an agent sent."""

    def new(conn: apsw.Connection) -> NewResponse:
        said = _said(conn, id)
        return reactions.to_response(said, body.emoji, agent=said.agent, session_id=said.session_id)

    return await _enqueue(service, new)


@endpoint("POST", "/api/responses/{id}/edit", {404: "there is no such response", 409: "it can't be changed"})
async def edit(service: Service, *, id: int, body: EditBody) -> Stored:
    """Replace the text of a message that an agent sent. The message stays where it is."""

    def new(conn: apsw.Connection) -> NewResponse:
        said = _said(conn, id)
        return edits.of(said, body.message, agent=said.agent, session_id=said.session_id)

    return await _enqueue(service, new)


def _said(conn: apsw.Connection, row_id: int) -> OwnResponse:
    found = own_responses.get(conn, row_id)
    if found is None:
        raise NotFound(f"there is no response {row_id}")
    return found


async def _enqueue(service: Service, new: Callable[[apsw.Connection], NewResponse]) -> Stored:
    def work(conn: apsw.Connection) -> str:
        made = new(conn)
        responses.enqueue(conn, made, now_ms=clock.now_ms())
        return made.message_id

    return {"ok": True, "messageId": await service.change(work, "deliver")}


ENDPOINTS = (react_to_message, react_to_response, edit)
