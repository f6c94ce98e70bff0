"""Parses calls of Discord's API, and refuses them in Discord's form.

Source: https://discord.com/developers/docs/reference (v10), opcodes-and-status-codes, components/reference (buttons).
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from emulator.base.faults import Fault
from emulator.platforms.discord import component_tree

EPHEMERAL, LOADING = 64, 128
MAX_BODY_BYTES = 25 << 20
MAX_CONTENT = 2000


class DiscordError(Exception):
    """A refusal in Discord's form: ``{"code": …, "message": …}``, with ``errors`` for an invalid body."""

    def __init__(
        self,
        status: int,
        code: int,
        message: str,
        *,
        errors: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers or {}
        self.body = {"message": message, "code": code, **({"errors": errors} if errors else {}), **(extra or {})}


def invalid(field_name: str, code: str, message: str) -> DiscordError:
    """Error 50035 about one field of the body."""
    return DiscordError(
        400, 50035, "Invalid Form Body", errors={field_name: {"_errors": [{"code": code, "message": message}]}}
    )


class ApiResult(msgspec.Struct, frozen=True):
    """The answer of a route: a status and a JSON body (None: empty)."""

    status: int
    body: Any = None


async def read_body(request: web.Request) -> dict[str, Any]:
    """The JSON object of a request, or of its multipart field ``payload_json``. Raises 50035 or 50109."""
    body = await read_json(request)
    if not isinstance(body, dict):
        raise DiscordError(400, 50035, "Invalid Form Body")
    return body


async def read_json(request: web.Request) -> Any:
    """The JSON value of a request. Raises 50035 or 50109."""
    try:
        if request.content_type == "multipart/form-data":
            form = await request.post()
            payload = form.get("payload_json")
            body = msgspec.json.decode(payload) if isinstance(payload, str | bytes | bytearray) else {}
        elif request.content_type == "application/json":
            body = msgspec.json.decode(await request.read())
        else:
            raise DiscordError(
                400,
                50035,
                "Invalid Form Body",
                errors={
                    "_errors": [
                        {
                            "code": "CONTENT_TYPE_INVALID",
                            "message": 'Expected "Content-Type" header to be one of'
                            ' {"application/json", "application/x-www-form-urlencoded", "multipart/form-data"}.',
                        }
                    ]
                },
            )
    except (ValueError, RecursionError, asyncio.IncompleteReadError):
        raise DiscordError(400, 50109, "The request body contains invalid JSON.") from None
    return body


def content_of(body: Mapping[str, Any]) -> str:
    """The checked text of a message body. Raises 50035 beyond 2000 characters, and 50006 for an empty message."""
    content = body.get("content")
    if content is not None and not isinstance(content, str):
        raise invalid("content", "BASE_TYPE_BAD_STRING", "Could not interpret string value.")
    if content is not None and len(content) > MAX_CONTENT:
        raise invalid("content", "BASE_TYPE_MAX_LENGTH", f"Must be {MAX_CONTENT} or fewer in length.")
    content = (content or "").strip()
    if not content and not any(body.get(name) for name in ("embeds", "attachments", "components", "poll")):
        raise DiscordError(400, 50006, "Cannot send an empty message")
    return content


def flags_of(body: Mapping[str, Any]) -> int:
    """The flags of a message body. Raises 50035."""
    flags = body.get("flags") or 0
    if not isinstance(flags, int) or not 0 <= flags < 1 << 53:
        raise invalid("flags", "NUMBER_TYPE_COERCE", "Value is not int.")
    return int(flags)


def pings_of(content: str, allowed: Any, *, default: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The pings of *content* under *allowed* (``allowed_mentions``), and its pings without *allowed*.

    Both lists hold ``everyone``, ``user:ID`` and ``role:ID``. *default* names the kinds that ping without *allowed*:
    all in a bot's message, only users in the answer to an interaction. Raises 50035 if *allowed* contradicts itself.
    """
    named = {
        "users": list(dict.fromkeys(re.findall(r"<@!?(\d{1,20})>", content))),
        "roles": list(dict.fromkeys(re.findall(r"<@&(\d{1,20})>", content))),
    }
    everyone = bool(re.search(r"@(?:everyone|here)\b", content))

    def select(parse: tuple[str, ...], users: list[str], roles: list[str]) -> list[str]:
        found = ["everyone"] if everyone and "everyone" in parse else []
        found += [f"user:{user}" for user in named["users"] if "users" in parse or user in users]
        return found + [f"role:{role}" for role in named["roles"] if "roles" in parse or role in roles]

    would_ping = select(default, [], [])
    if allowed is None:
        return would_ping, would_ping
    if not isinstance(allowed, dict):
        raise invalid("allowed_mentions", "DICT_TYPE_CONVERT", "Only dictionaries may be used in a DictType")
    if not all(isinstance(allowed.get(kind) or [], list) for kind in ("parse", "users", "roles")):
        raise invalid("allowed_mentions", "LIST_TYPE_CONVERT", "Only iterables may be used in a ListType")
    parse = tuple(allowed.get("parse") or ())
    for kind in ("users", "roles"):
        if kind in parse and allowed.get(kind):
            raise invalid(
                "allowed_mentions",
                "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE",
                f"parse:[{kind!r}] and {kind}: [ids...] are mutually exclusive.",
            )
    pings = select(parse, [str(u) for u in allowed.get("users") or ()], [str(r) for r in allowed.get("roles") or ()])
    return pings, would_ping


def components(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The checked rows of buttons and selects in a body. Raises 50035, also for components that this fake lacks."""
    rows = body.get("components") or []
    if not isinstance(rows, list) or len(rows) > 5:
        raise invalid("components", "BASE_TYPE_BAD_LENGTH", "Must be between 0 and 5 in length.")
    named: set[str] = set()
    for row in rows:
        buttons = row.get("components") if isinstance(row, dict) and row.get("type") == 1 else None
        if not isinstance(buttons, list) or not 1 <= len(buttons) <= 5:
            raise invalid("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
        for button in buttons:
            custom_id = _select_id(button, row) if _is_select(button) else _custom_id(button)
            if custom_id in named:
                raise invalid(
                    "components", "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id cannot be duplicated"
                )
            named.add(custom_id)
    return rows


def _is_select(component: Any) -> bool:
    return isinstance(component, dict) and component.get("type") in component_tree.SELECTS


def _select_id(select: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """The ``custom_id`` of a select, which fills its row."""
    options = select.get("options") or []
    if len(row["components"]) != 1 or (select["type"] == 3 and not 1 <= len(options) <= 25):
        raise invalid("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 25 in length.")
    value = select.get("custom_id")
    if not isinstance(value, str) or not 1 <= len(value) <= 100:
        raise invalid("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
    return value


def _custom_id(button: Any) -> str:
    """The button's ``custom_id``, or the address of a link button."""
    if not isinstance(button, dict) or button.get("type") != 2 or button.get("style") not in (1, 2, 3, 4, 5):
        raise invalid("components", "BASE_TYPE_CHOICES", "This fake takes buttons of the styles 1 to 5.")
    if len(str(button.get("label") or "")) > 80:
        raise invalid("components", "BASE_TYPE_MAX_LENGTH", "Must be 80 or fewer in length.")
    value = button.get("url" if button["style"] == 5 else "custom_id")
    if not isinstance(value, str) or not 1 <= len(value) <= 100:
        raise invalid("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
    return value


def error_of(fault: Fault) -> DiscordError:
    """The error that an injected fault answers."""
    if fault.status == 429:
        return rate_limited(fault.retry_after if fault.retry_after is not None else 1.0, scope="user", headers={})
    words = {401: "401: Unauthorized", 403: "Missing Access", 404: "404: Not Found", 500: "500: Internal Server Error"}
    code = {403: 50001}.get(fault.status, 0)
    return DiscordError(
        fault.status, code, fault.description or words.get(fault.status, f"{fault.status}: injected fault")
    )


def rate_limited(wait_s: float, *, scope: str, headers: Mapping[str, str]) -> DiscordError:
    """Error 429 with a wait of *wait_s*."""
    return DiscordError(
        429,
        0,
        "You are being rate limited.",
        extra={"retry_after": round(wait_s, 3), "global": scope == "global"},
        headers={**headers, "Retry-After": str(max(1, -(-int(wait_s * 1000) // 1000))), "X-RateLimit-Scope": scope},
    )
