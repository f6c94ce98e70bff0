"""Parses calls of the Bot API, and answers or refuses them in Telegram's words.

Source: https://core.telegram.org/bots/api#making-requests; wording after the open source of the server.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from aiohttp import web

from emulator.base.faults import Fault
from emulator.platforms.page_files import MAX_FORM_BYTES

MAX_BODY_BYTES = 1 << 20

Params = Mapping[str, Any]


class TelegramError(Exception):
    """A refusal in Telegram's words."""

    def __init__(self, status: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.status, self.description, self.parameters = status, description, parameters

    def envelope(self) -> dict[str, Any]:
        answer = {"ok": False, "error_code": self.status, "description": self.description}
        return {**answer, "parameters": self.parameters} if self.parameters else answer


class MethodResult(msgspec.Struct, frozen=True):
    """The result of a method, with the description that a few methods add."""

    result: Any
    description: str | None = None

    def envelope(self) -> dict[str, Any]:
        answer = {"ok": True, "result": self.result}
        return {**answer, "description": self.description} if self.description else answer


class ApiMethod(msgspec.Struct, frozen=True):
    """One method of the API: its documented name, and its function."""

    name: str
    run: Callable[[Params], Awaitable[MethodResult]]


class TelegramUpload(msgspec.Struct, frozen=True):
    """A file in a multipart body; *mime* is what its part says."""

    name: str
    mime: str
    data: bytes


class UploadedParams(dict[str, Any]):
    """The parameters of a multipart call, with its files by the names of their parts."""

    def __init__(self, fields: Params, uploads: Mapping[str, TelegramUpload]) -> None:
        super().__init__(fields)
        self.uploads = uploads


def uploads_of(params: Params) -> Mapping[str, TelegramUpload]:
    """The files of a call."""
    return params.uploads if isinstance(params, UploadedParams) else {}


def integer(value: Any, default: int) -> int:
    """A 64-bit number, also from text. Raises 400."""
    try:
        number = default if value in (None, "") else int(value)
    except (TypeError, ValueError, OverflowError):
        number = 1 << 63
    if not -(1 << 63) <= number < 1 << 63:
        raise TelegramError(400, "Bad Request: can't parse parameters: an integer is expected")
    return number


def is_true(value: Any) -> bool:
    """Whether *value* is a true flag, in any form that Telegram accepts."""
    return value is True or str(value).lower() in ("true", "yes", "1")


def parse_nested(value: Any) -> Any:
    """A nested value: as it is in a JSON body, JSON text in a form."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise TelegramError(400, "Bad Request: can't parse parameters: JSON is expected") from None


def keyboard(params: Params) -> list[Any] | None:
    """The checked inline keyboard of a call; other kinds of keyboard are accepted and not shown."""
    if params.get("reply_markup") in (None, ""):
        return None
    given = parse_nested(params["reply_markup"])
    if not isinstance(given, dict):
        raise TelegramError(400, "Bad Request: can't parse reply keyboard markup JSON object")
    rows = given.get("inline_keyboard")
    if rows is None:
        return None
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise TelegramError(
            400, 'Bad Request: field "inline_keyboard" of the InlineKeyboardMarkup must be an Array of Arrays'
        )
    for button in (button for row in rows for button in row):
        if not isinstance(button, dict) or not button.get("text"):
            raise TelegramError(400, 'Bad Request: can\'t parse inline keyboard button: Field "text" is empty')
        if "callback_data" in button and not 1 <= len(str(button["callback_data"]).encode()) <= 64:
            raise TelegramError(400, "Bad Request: BUTTON_DATA_INVALID")
    return rows


async def read_params(request: web.Request) -> dict[str, Any]:
    """The parameters of a call, from the query string and a JSON, form or multipart body."""
    params: dict[str, Any] = dict(request.query)
    limit = MAX_FORM_BYTES if request.content_type == "multipart/form-data" else MAX_BODY_BYTES
    if (request.content_length or 0) > limit:
        raise TelegramError(413, "Request Entity Too Large")
    if request.method == "POST" and request.body_exists:
        read = _read_json if request.content_type == "application/json" else _read_form
        try:
            params = await read(request, params)
        except web.HTTPRequestEntityTooLarge:
            raise TelegramError(413, "Request Entity Too Large") from None
        except (ValueError, RecursionError):
            raise TelegramError(400, "Bad Request: can't parse JSON object") from None
    try:
        json.dumps(params, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise TelegramError(400, "Bad Request: strings must be encoded in UTF-8") from None
    return params


async def _read_json(request: web.Request, params: dict[str, Any]) -> dict[str, Any]:
    raw = await request.read()
    if len(raw) > MAX_BODY_BYTES:
        raise TelegramError(413, "Request Entity Too Large")
    body = json.loads(raw or b"{}")
    if not isinstance(body, dict):
        raise ValueError("not an object")
    return {**params, **body}


async def _read_form(request: web.Request, params: dict[str, Any]) -> dict[str, Any]:
    """A file part is a parameter too: ``attach://`` and its name."""
    uploads: dict[str, TelegramUpload] = {}
    for key, value in (await request.post()).items():
        if isinstance(value, web.FileField):
            with value.file as part:  # a request of a further account closes none
                uploads[key] = TelegramUpload(value.filename, value.content_type, part.read())
            params.setdefault(key, f"attach://{key}")
        else:
            params[key] = value if isinstance(value, str) else bytes(value).decode()
    return UploadedParams(params, uploads) if uploads else params


def error_envelope(fault: Fault) -> dict[str, Any]:
    """The envelope that an injected fault answers."""
    words = {
        429: f"Too Many Requests: retry after {int(fault.retry_after or 1)}",
        403: "Forbidden",
        401: "Unauthorized",
        400: "Bad Request: injected fault",
        500: "Internal Server Error",
        502: "Bad Gateway",
        504: "Gateway Timeout",
    }
    description = fault.description or words.get(fault.status, "Injected fault")
    wait = fault.retry_after if fault.retry_after is not None else (1 if fault.status == 429 else None)
    return TelegramError(
        fault.status, description, **({"retry_after": int(wait)} if wait is not None else {})
    ).envelope()


def respond(envelope: dict[str, Any]) -> web.Response:
    """The envelope as an HTTP answer, with its status."""
    wait = envelope.get("parameters", {}).get("retry_after")
    headers = {"Retry-After": str(wait)} if wait is not None else None
    return web.json_response(envelope, status=envelope.get("error_code", 200), headers=headers)
