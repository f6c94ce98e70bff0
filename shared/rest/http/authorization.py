"""Authorization: with ``POSTROOM_API_TOKEN`` set, a caller must send that token.

Without, Postroom's own user may call from this machine without a token; every other caller sends the token of a file
that only this user can read (``shared/runtime/operator_token.py``). The kernel tells the user of a connection. Another
user must not be the operator: an operator lets programs run as Postroom's user.

Without a token, the Host header must be a loopback name as well. That keeps the pages of other sites, opened in a
browser on this machine, from reading or writing here. No header may come from a proxy: a proxy or a tunnel on this
machine passes on the requests of strangers. And a page must be of this address, or named in ``POSTROOM_ORIGINS``: any
user may serve a page on another port. None of them can know the token, so with a token only the token counts.

Where an agent's program runs without a leash, nobody may call without ``POSTROOM_API_TOKEN``: see ``free_programs``.

CORS lets in the pages that are named, and no other origin. There is no wildcard.
"""

import hmac
from collections.abc import Callable
from ipaddress import ip_address

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.core import http_head
from shared.core.settings import Settings
from shared.rest.http.service import Service
from shared.runtime import connected_user, operator_token

_PROTECTED = ("/api/", "/metrics")
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID",
    "Access-Control-Max-Age": "600",
}


class Authorization:
    """The middleware that checks every request under ``/api/``, and ``/metrics``."""

    def __init__(self, app: ASGIApp, service: Callable[[], Service], why_token: Callable[[], str | None]) -> None:
        self._app = app
        self._service = service
        self._why_token = why_token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(_PROTECTED):
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        origin = request.headers.get("origin")
        is_named = origin is not None and _is_named(origin, request, self._service().settings)
        answer = self._answer(request, is_named=is_named)
        answering = _with_origin(send, origin) if origin and is_named else send
        await (answer or self._app)(scope, receive, answering)

    def _answer(self, request: Request, *, is_named: bool) -> Response | None:
        """The answer to a refused or a preflight request; None: the endpoint answers."""
        is_preflight = request.method == "OPTIONS" and "access-control-request-method" in request.headers
        service = self._service()
        try:
            if is_preflight:  # to which a browser adds no token
                if not is_named:
                    raise _refused_page(request, service.settings)
                return Response(status_code=204, headers=_PREFLIGHT)
            if service.settings.api_token is not None:
                if not _has_token(request, service.settings.api_token.get_secret_value()):
                    raise HTTPException(401, _SET_TOKEN)
                return None
            if not _has_token(request, service.operator_token):
                _check_local(request, service.settings, is_named=is_named)
            _check_alone(self._why_token())
        except HTTPException as error:
            return JSONResponse({"error": error.detail}, error.status_code)
        return None


_SET_TOKEN = "send the header 'Authorization: Bearer <token>' with the value of POSTROOM_API_TOKEN"  # noqa: S105


def _is_named(origin: str, request: Request, settings: Settings) -> bool:
    named = {each.strip() for each in settings.origins.split(",")} - {""}
    return origin in named or http_head.is_own_origin(origin, request.headers.get("host", ""))


def _with_origin(send: Send, origin: str) -> Send:
    async def named(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["Access-Control-Allow-Origin"] = origin
            headers.add_vary_header("Origin")
        await send(message)

    return named


def _has_token(request: Request, token: str | None) -> bool:
    given = request.headers.get("authorization", "").encode("utf-8", "replace")
    return token is not None and hmac.compare_digest(given, f"Bearer {token}".encode())


def _check_local(request: Request, settings: Settings, *, is_named: bool) -> None:
    """Check the connection before the headers, which the sender chooses freely."""
    if request.client is not None and not _is_loopback_address(request.client.host):
        raise _refused("a call from another machine", settings)
    is_own_user: connected_user.Question = request.scope.get(connected_user.SCOPE_KEY, bool)
    if http_head.OTHER_USER in request.headers or not is_own_user():
        raise HTTPException(401, f"this connection is not known to be of Postroom's own user: {_way_in(settings)}")
    proxied = http_head.proxy_header(request.headers.keys())
    if proxied is not None:
        raise _refused(f"a request that a proxy passed on (its header {proxied!r} says so)", settings)
    host = request.headers.get("host", "")
    if not http_head.is_loopback(host):
        raise _refused(f"the host {host!r}", settings)
    if "origin" in request.headers and not is_named:
        raise _refused_page(request, settings)


def _check_alone(why_token: str | None) -> None:
    """A program of an agent calls from this machine too, and without a token it can't be told from the operator."""
    if why_token is not None:
        raise HTTPException(401, why_token)


def _is_loopback_address(address: str) -> bool:
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback


def _refused_page(request: Request, settings: Settings) -> HTTPException:
    """A page of this machine is told what lets it in: of another machine, none should be."""
    origin = request.headers.get("origin", "")
    if not http_head.is_local_origin(origin):
        return _refused(f"a page of {origin!r}, which POSTROOM_ORIGINS does not name,", settings)
    names = ",".join(filter(None, (settings.origins, origin)))
    return HTTPException(
        403, f"a page of {origin!r} is refused: to let it in, set POSTROOM_ORIGINS={names} for api, restart"
    )


def _refused(what: str, settings: Settings) -> HTTPException:
    return HTTPException(403, f"{what} is refused: call 127.0.0.1 directly; or {_way_in(settings)}")


def _way_in(settings: Settings) -> str:
    """The file by its name alone: a stranger need not know our folders."""
    file = operator_token.path_of(settings.db).name
    return (
        f"send 'Authorization: Bearer <token>' with the content of the file {file}, which lies beside the database and "
        f"which its owner can read (or set POSTROOM_API_TOKEN, restart, and send that)"
    )
