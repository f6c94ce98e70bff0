"""The parts of a request to the control API or the chat page: the platform, the chat, and the JSON body."""

from typing import Any

import msgspec
from aiohttp import web

from emulator.base.fakes import PLATFORMS
from emulator.platforms.errors import ActionRefused
from emulator.platforms.store import FakeChat, PlatformStore

EITHER = f"{{platform:{'|'.join(PLATFORMS)}}}"  # a part of a route


def platform_of(request: web.Request) -> str:
    """The platform in the path; the route admits no other word."""
    return request.match_info["platform"]


def find_chat(store: PlatformStore, platform: str, chat_id: str) -> FakeChat:
    chat = store.chat(platform, chat_id)
    if chat is None:
        raise web.HTTPNotFound(text=f"there is no chat {chat_id} on {platform}")
    return chat


async def read_json(request: web.Request) -> dict[str, Any]:
    """The JSON object of a request. Raises ValueError if the body is none."""
    try:
        body = msgspec.json.decode(await request.read() or b"{}")
    except (ValueError, RecursionError):
        raise ValueError("the body must be JSON in UTF-8") from None
    if not isinstance(body, dict):
        raise ValueError("the body must be a JSON object")
    return body


def text(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str):
        raise ActionRefused(f'"{key}" is missing, or not a text')
    return value


def optional(body: dict[str, Any], key: str) -> str | None:
    value = body.get(key)
    return None if value is None else str(value)


def number(body: dict[str, Any], key: str) -> int | None:
    value = body.get(key)
    return None if value in (None, "") else int(str(value))


def hang_up(request: web.Request) -> web.Response:
    """Close the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
