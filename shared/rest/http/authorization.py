"""Authorization: with ``POSTROOM_API_TOKEN`` set, a caller must send the token. Without, only this machine may call.

Where an agent's program runs without a leash, nobody may call without a token: see ``free_programs``.

Without a token, the Host header must be a loopback name as well. That keeps the pages of other sites, opened in a
browser on this machine, from reading or writing here. And no header may come from a proxy: a proxy or a tunnel on this
machine passes on the requests of strangers. Neither can know the token, so with a token only the token counts.

CORS lets in the pages that this machine serves, on any port, and no other origin. There is no wildcard.
"""

import hmac
import re
from collections.abc import Callable
from ipaddress import ip_address

from pydantic import SecretStr
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.core import http_head

_ORIGIN = re.compile(r"https?://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?")
_PROTECTED = "/api/"
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID",
    "Access-Control-Max-Age": "600",
}


class Authorization:
    """The middleware that checks every request under ``/api/``."""

    def __init__(
        self, app: ASGIApp, token: Callable[[], SecretStr | None], why_token: Callable[[], str | None]
    ) -> None:
        self._app = app
        self._token = token
        self._why_token = why_token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(_PROTECTED):
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        origin = request.headers.get("origin")
        is_local_origin = origin is not None and _ORIGIN.fullmatch(origin) is not None
        answer = self._answer(request, is_local_origin=is_local_origin)
        answering = _with_origin(send, origin) if origin and is_local_origin else send
        await (answer or self._app)(scope, receive, answering)

    def _answer(self, request: Request, *, is_local_origin: bool) -> Response | None:
        """The answer to a refused or a preflight request; None: the endpoint answers."""
        is_preflight = request.method == "OPTIONS" and "access-control-request-method" in request.headers
        token = self._token()
        try:
            if token is None:
                _check_local(request)
                _check_alone(self._why_token())
            elif not is_preflight:  # to which a browser adds no token
                _check_token(request.headers, token)
            if is_preflight and not is_local_origin:
                raise _refused(f"a page of {request.headers.get('origin')}")
        except HTTPException as error:
            return JSONResponse({"error": error.detail}, error.status_code)
        return Response(status_code=204, headers=_PREFLIGHT) if is_preflight else None


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
        raise HTTPException(401, "send the header 'Authorization: Bearer <token>' with the value of POSTROOM_API_TOKEN")


def _check_local(request: Request) -> None:
    """Check the address of the connection before the Host header, which the sender chooses freely."""
    if request.client is not None and not _is_loopback_address(request.client.host):
        raise _refused("a call from another machine")
    proxied = http_head.proxy_header(request.headers.keys())
    if proxied is not None:
        raise _refused(f"a request that a proxy passed on (its header {proxied!r} says so)")
    host = request.headers.get("host", "")
    if not http_head.is_loopback(host):
        raise _refused(f"the host {host!r}")
    origin = request.headers.get("origin")
    if origin and request.method != "GET" and not _ORIGIN.fullmatch(origin):
        raise _refused(f"the origin {origin!r}")


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


def _refused(what: str) -> HTTPException:
    return HTTPException(403, f"{what} is refused: call 127.0.0.1 directly, or set POSTROOM_API_TOKEN and send it")
