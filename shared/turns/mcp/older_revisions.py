"""Requests of the revisions that have a handshake, such as 2025-06-18. Each is answered by itself.

The SDK's transport for them keeps sessions. Without sessions it begins one for each request, of three tasks and six
streams, and ends it after the answer, which takes half as long as the whole call of a tool. Its ``serve_one``, by which
it answers the revision 2026-07-28, does the same for these without any.
"""

import json
from collections.abc import Mapping
from typing import Any

import anyio
import msgspec
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.runner import modern_error_data, serve_one
from mcp.server.streamable_http import check_accept_headers
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import DEFAULT_NEGOTIATED_VERSION, INVALID_REQUEST, JSONRPCRequest, RequestId, jsonrpc_message_adapter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_TRANSPORT = TransportContext(kind="streamable-http", can_send_request=False)


class OlderRevisions:
    """The ASGI application that answers one POST of such a revision.

    Args:
        security: which hosts and origins may ask.
    """

    def __init__(self, server: Server[Any], security: TransportSecuritySettings) -> None:
        self._server = server
        self._security = TransportSecurityMiddleware(security)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await self._security.validate_request(request, is_post=True) or await self._answer(request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if not check_accept_headers(request)[0]:
            return _refused(406, "the answer is application/json: allow it in the header Accept")
        try:
            message = jsonrpc_message_adapter.validate_python(json.loads(await request.body()), by_name=False)
        except (ValueError, RecursionError):
            return _refused(400, "the body is no JSON-RPC message")
        if not isinstance(message, JSONRPCRequest):
            return Response(status_code=202)  # a notification: nothing waits for it
        version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER, DEFAULT_NEGOTIATED_VERSION)
        context = _RequestContext(message.id, ServerMessageMetadata(request_context=request))
        try:
            result = await serve_one(
                self._server,
                context,
                message.method,
                message.params,
                connection=Connection.from_envelope(version, None, None),
                lifespan_state={},
            )
        except Exception as error:  # noqa: BLE001 - the SDK logs it, and says to the client what it may know
            wrong = modern_error_data(error).model_dump(mode="json", exclude_none=True)
            return _json(200, {"id": message.id, "error": wrong})
        return _json(200, {"id": message.id, "result": result})


class _RequestContext(msgspec.Struct):
    """The SDK's ``DispatchContext`` of a request whose client can be sent nothing but the answer."""

    request_id: RequestId
    message_metadata: ServerMessageMetadata
    transport: TransportContext = _TRANSPORT
    can_send_request: bool = False
    cancel_requested: anyio.Event = msgspec.field(default_factory=anyio.Event)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Nothing: an answer of one JSON document has no room for it."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Nothing, likewise."""


def _refused(status: int, sentence: str) -> Response:
    return _json(status, {"id": None, "error": {"code": INVALID_REQUEST, "message": sentence}})


def _json(status: int, fields: Mapping[str, Any]) -> Response:
    text = json.dumps({"jsonrpc": "2.0", **fields}, separators=(",", ":"))
    return Response(text, status, media_type="application/json")
