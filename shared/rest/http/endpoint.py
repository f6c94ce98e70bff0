"""An endpoint is a function whose signature is its contract.

``service`` comes first. By name follow the path's parameters (``str``, or ``int`` for a row's id), ``query`` and
``body`` (pydantic models) and ``request``. The return annotation is the shape of the answer. The routes and the
OpenAPI document are both made from the signature, so they can't disagree.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeVar, get_type_hints

import apsw
import msgspec
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from shared.core import logs
from shared.core.errors import ConfigInvalid, NotAllowed, NotFound, NotReplicated, PostroomError, WrongState
from shared.core.text import half_characters
from shared.core.text.validation import reason, where
from shared.rest.http.service import Service
from shared.runtime.app import BODY_LIMIT, read_body

log = logs.get()

_STATUS = {ConfigInvalid: 400, NotAllowed: 403, NotFound: 404, WrongState: 409}
_LARGEST_ID = 2**63 - 1
_PARAMETER = re.compile(r"{(\w+)}")

# TinyAGI's own endpoints: its clients send some of them fields and parameters of which we know nothing. There, and only
# there, an unknown name is ignored. Elsewhere it is refused, because its sender expects something of it.
OPEN = frozenset(
    {
        *(("POST", path) for path in ("/api/message", "/api/responses", "/api/chatroom/{id}")),
        *(("GET", path) for path in ("/api/responses", "/api/responses/pending", "/api/chatroom/{id}")),
        *(("GET", path) for path in ("/api/agent-messages", "/api/agents/{id}/messages", "/api/schedules")),
        *(("GET", path) for path in ("/api/queue/processing", "/api/queue/dead", "/api/logs", "/api/events/stream")),
    }
)


class _Answer(JSONResponse):
    """An answer; msgspec writes a large one in a seventh of the time of Python's json."""

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


class Input(BaseModel):
    """What a request gives. *sentences*: the error text for a field that is missing or empty."""

    model_config = ConfigDict(extra="forbid", defer_build=True)
    part: ClassVar = "field"
    sentences: ClassVar[Mapping[str, str]] = {}


class Body(Input):
    """The JSON body of a request; a number as text is refused."""

    model_config = ConfigDict(strict=True, str_max_length=200_000)


class Query(Input):
    """The query of a request."""

    part: ClassVar = "parameter"


Model = TypeVar("Model", bound=Input)


class RequestRefused(HTTPException):
    """A refusal: a sentence for people, and beside it the facts that a program needs."""

    def __init__(self, status: int, sentence: str, **facts: object) -> None:
        super().__init__(status, sentence)
        self.facts = facts


class Endpoint(msgspec.Struct, frozen=True):
    """One method of one path; *refusals*: its error statuses, with the reason for each; *most_bytes*: of a body."""

    method: str
    path: str
    run: Callable[..., Awaitable[Any]]
    parameters: Mapping[str, type[str] | type[int]]
    query: type[Query] | None
    body: type[Body] | None
    answer: Any
    wants_request: bool
    refusals: Mapping[int, str]
    most_bytes: int = BODY_LIMIT

    @property
    def is_open(self) -> bool:
        """An unknown name in its body or query is ignored."""
        return (self.method, self.path) in OPEN

    @property
    def description(self) -> str:
        """The docstring of its function."""
        return inspect.cleandoc(self.run.__doc__ or "")

    def route(self, service: Callable[[], Service]) -> Route:
        """The route that Starlette serves."""

        async def serve(request: Request) -> Response:
            try:
                answer = await self.run(service(), **await self._arguments(request))
            except RequestRefused as refused:
                return JSONResponse({"error": refused.detail, **refused.facts}, refused.status_code)
            except PostroomError as error:
                return _problem(error)
            except apsw.Error as error:
                log.exception("api.database_failed", path=self.path)
                return _later(f"the database can't be used at the moment ({type(error).__name__}): try again")
            return answer if isinstance(answer, Response) else _Answer(answer)

        return Route(self.path, serve, methods=[self.method])

    async def _arguments(self, request: Request) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            name: _row_id(request.path_params[name]) if kind is int else request.path_params[name]
            for name, kind in self.parameters.items()
        }
        if self.query is not None:
            arguments["query"] = _checked(self.query, dict(request.query_params), is_open=self.is_open)
        if self.body is not None:
            arguments["body"] = _checked(self.body, await read_body(request, self.most_bytes), is_open=self.is_open)
        if self.wants_request:
            arguments["request"] = request
        return arguments


def endpoint(
    method: str, path: str, refusals: Mapping[int, str] | None = None, *, most_bytes: int = BODY_LIMIT
) -> Callable[[Callable[..., Awaitable[Any]]], Endpoint]:
    """Make an endpoint from a function; see the module's docstring."""

    def made(run: Callable[..., Awaitable[Any]]) -> Endpoint:
        hints = get_type_hints(run, include_extras=True)
        parameters = {name: hints.get(name, str) for name in _PARAMETER.findall(path)}
        body, query = hints.get("body"), hints.get("query")
        statuses = dict(refusals or {})
        if body or query:
            statuses.setdefault(400, "the request can't be read, or the value of a field is not allowed")
        if body:
            statuses.setdefault(413, "the body is too large")
        if method != "GET":
            statuses.setdefault(503, "the change could not be stored, or is not replicated yet: try again")
        if int in parameters.values():
            statuses.setdefault(404, "no row has this id")
        wants_request = "request" in hints
        return Endpoint(
            method, path, run, parameters, query, body, hints["return"], wants_request, statuses, most_bytes
        )

    return made


def routes(endpoints: Sequence[Endpoint], service: Callable[[], Service]) -> list[Route]:
    """The routes of these endpoints."""
    return [each.route(service) for each in endpoints]


def _problem(error: PostroomError) -> Response:
    if isinstance(error, NotReplicated):
        log.warning("api.not_replicated", reason=str(error))
        return _later("the change is stored on this machine, but not known to be in the replica yet")
    for kind, status in _STATUS.items():
        if isinstance(error, kind):
            return JSONResponse({"error": str(error)}, status)
    raise error


def _later(sentence: str) -> Response:
    return JSONResponse({"error": sentence}, 503, headers={"Retry-After": "5"})


def _row_id(text: str) -> int:
    if not re.fullmatch("[0-9]{1,19}", text, re.ASCII) or not 0 < int(text) <= _LARGEST_ID:
        raise RequestRefused(404, f"no row has the id {text!r}: an id is a whole number")
    return int(text)


def _checked(model: type[Model], given: bytes | dict[str, str], *, is_open: bool) -> Model:
    extra: Literal["ignore"] | None = "ignore" if is_open else None
    try:
        if isinstance(given, bytes):
            found = model.model_validate_json(half_characters.mend_json(given), extra=extra)
        else:
            found = model.model_validate(given, extra=extra)
    except ValidationError as error:
        raise RequestRefused(400, _sentence(model, error.errors())) from None
    if (name := _too_large(found)) is not None:
        raise RequestRefused(400, f"{name}: the number is too large, or too far below 0")
    return found


def _too_large(found: BaseModel) -> str | None:
    """The first field with a number that the database can't hold, at any depth; None: there is none."""
    waiting = list(found)
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, int) and abs(value) > _LARGEST_ID:
            return name
        if isinstance(value, BaseModel | dict):
            waiting += [(f"{name}.{each}", inner) for each, inner in (dict(value)).items()]
        elif isinstance(value, list | tuple):
            waiting += [(name, each) for each in value]
    return None


def _sentence(model: type[Input], problems: Sequence[ErrorDetails]) -> str:
    unknown = [str(each["loc"][0]) for each in problems if each["type"] == "extra_forbidden" and len(each["loc"]) == 1]
    if unknown:
        known = ", ".join(model.model_fields) or "none"
        return f"{', '.join(unknown)}: there is no such {model.part}; known: {known}"
    for problem in problems:
        name = problem["loc"][0] if problem["loc"] else None
        if name in model.sentences and problem["type"] != "string_too_long":
            return model.sentences[str(name)]
    return "; ".join(f"{where(each) or 'body'}: {reason(each)}" for each in problems)
