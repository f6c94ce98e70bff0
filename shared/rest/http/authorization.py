"""Who may ask: whoever has the token; where none is set, only this machine, and only under its loopback names.

The names keep other sites' pages in a person's browser from reading or writing here; who has the token is no page that
a browser was lured to. Pages that this machine serves, on any port, may read and write: no other origin is ever let in
by CORS, and there is no wildcard.
"""

import hmac
import re
from collections.abc import Callable
from ipaddress import ip_address
from urllib.parse import urlsplit

from pydantic import SecretStr
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ORIGIN = re.compile(r"https?://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?")
_GUARDED = "/api/"
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID",
    "Access-Control-Max-Age": "600",
}


class Guard:
    """Stands before everything under ``/api/``, whatever is routed there."""

    def __init__(self, app: ASGIApp, token: Callable[[], SecretStr | None]) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(_GUARDED):
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        origin = request.headers.get("origin")
        shared = origin is not None and _ORIGIN.fullmatch(origin) is not None
        answer = self._answer(request, shared=shared)
        shown = _with_origin(send, origin) if origin and shared else send
        await (answer or self._app)(scope, receive, shown)

    def _answer(self, request: Request, *, shared: bool) -> Response | None:
        """What to say in place of the endpoint, if anything."""
        asks_first = request.method == "OPTIONS" and "access-control-request-method" in request.headers
        token = self._token()
        try:
            if token is None:
                _check_local(request)
            elif not asks_first:  # a browser asks first without the token
                _check_token(request.headers, token)
            if asks_first and not shared:
                raise _refused(f"a page of {request.headers.get('origin')}")
        except HTTPException as error:
            return JSONResponse({"error": error.detail}, error.status_code)
        return Response(status_code=204, headers=_PREFLIGHT) if asks_first else None


def _with_origin(send: Send, origin: str) -> Send:
    async def named(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["Access-Control-Allow-Origin"] = origin
            headers.add_vary_header("Origin")
        await send(message)

    return named


def _check_token(headers: Headers, token: SecretStr) -> None:
    given = headers.get("authorization", "").encode("utf-8", "replace")
    if not hmac.compare_digest(given, f"Bearer {token.get_secret_value()}".encode()):
        raise HTTPException(401, "send the header 'Authorization: Bearer' with the value of POSTROOM_API_TOKEN")


def _check_local(request: Request) -> None:
    """Whose connection it is decides first: a Host header says whatever its sender likes."""
    if request.client is not None and not _is_loopback_address(request.client.host):
        raise _refused("a call from another machine")
    host = request.headers.get("host", "")
    if not _is_loopback_name(host):
        raise _refused(f"the host {host!r}")
    origin = request.headers.get("origin")
    if origin and request.method != "GET" and not _ORIGIN.fullmatch(origin):
        raise _refused(f"the origin {origin!r}")


def _is_loopback_address(address: str) -> bool:
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback


def _is_loopback_name(host: str) -> bool:
    try:
        return urlsplit(f"//{host}").hostname in _LOOPBACK
    except ValueError:
        return False


def _refused(what: str) -> HTTPException:
    return HTTPException(403, f"{what} is refused: call 127.0.0.1, or set POSTROOM_API_TOKEN and send it")
