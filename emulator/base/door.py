"""Who may use the emulator's own paths: the chat page, the control of the fake platforms, the status.

Processes of the emulator's user may, and a caller with the token of the file beside the database: a program sends it as
``Authorization: Bearer``, a browser asks its person for it as a password. A page of another address never may.
"""

import base64
import binascii
import hmac

from aiohttp import web

from emulator.base.limited_site import is_own_user
from shared.core import http_head

TOKEN = "EMULATOR_TOKEN"  # noqa: S105 - the name of the variable that holds the token for our own commands


class Door:
    """The check of each request to a path of the emulator's own.

    Args:
        token: of the file of that name; None: no token opens it.
    """

    def __init__(self, token: str | None, file: str) -> None:
        self.token = token
        self._file = file

    def refuse(self, request: web.Request) -> web.Response | None:
        """The answer to a caller that may not; None: it may."""
        origin = request.headers.get("Origin")
        if origin is not None and not http_head.is_own_origin(origin, request.host):
            return _sentence(403, "a page of another site may not use the emulator")
        if self._has_token(request.headers.get("Authorization", "")):
            return None
        if is_other_user(request):
            return _sentence(
                401,
                f"this connection is not known to be of the emulator's own user: send 'Authorization: Bearer <token>' "
                f"with the content of the file {self._file} in the emulator's state folder, which its owner can read; "
                f"in a browser, that is the password, of any user",
                {"WWW-Authenticate": 'Basic realm="Postroom"'},
            )
        if not http_head.is_loopback(request.host) or http_head.proxy_header(request.headers) is not None:
            return _sentence(403, "this is for this machine only: open it at http://127.0.0.1")
        return None

    def _has_token(self, given: str) -> bool:
        kind, _, value = given.partition(" ")
        if kind == "Basic":
            try:
                value = base64.b64decode(value, validate=True).decode().partition(":")[2]
            except (binascii.Error, ValueError):
                return False
        is_known = kind in ("Basic", "Bearer") and self.token is not None
        return is_known and hmac.compare_digest(value.encode(), (self.token or "").encode())


def is_other_user(request: web.Request) -> bool:
    """Whether another user of this machine sends the request, or may do so: directly, or through the gateway."""
    return http_head.OTHER_USER in request.headers or not is_own_user(request)


def _sentence(status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response({"error": text}, status=status, headers=headers)
