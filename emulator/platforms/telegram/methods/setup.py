"""The methods that set up a bot: its identity, its commands, and the delivery of its updates.

Source: https://core.telegram.org/bots/api#getting-updates, #getme, #setmycommands
"""

import json
import re
from typing import Any
from urllib.parse import urlsplit

from emulator.platforms.config import PlatformsConfig
from emulator.platforms.store import PlatformStore
from emulator.platforms.telegram.calls import (
    ApiMethod,
    MethodResult,
    Params,
    TelegramError,
    integer,
    is_true,
    parse_nested,
)
from emulator.platforms.telegram.objects import TelegramObjects
from emulator.platforms.telegram.polls import UpdatePolls
from emulator.platforms.telegram.queue import KINDS
from emulator.platforms.telegram.updates import UpdateDelivery, WebhookSettings

MAX_POLL_S = 50
BOT_RIGHTS = {
    "can_join_groups": True,
    "can_read_all_group_messages": False,
    "supports_guest_queries": False,
    "supports_inline_queries": False,
    "can_connect_to_business": False,
    "has_main_web_app": False,
    "has_topics_enabled": False,
    "allows_users_to_create_topics": False,
    "can_manage_bots": False,
    "supports_join_request_queries": False,
}


class TelegramSetup:
    """Methods for the deployment of a bot; none of them concerns a chat."""

    def __init__(
        self, config: PlatformsConfig, store: PlatformStore, objects: TelegramObjects, updates: UpdateDelivery
    ) -> None:
        self._config, self._store, self._objects, self._updates = config, store, objects, updates
        self._clock = config.clock
        self._next_webhook_ms = 0
        self._polls = UpdatePolls(config.clock, updates)

    def methods(self) -> tuple[ApiMethod, ...]:
        return (
            ApiMethod("getMe", self._get_me),
            ApiMethod("setWebhook", self._set_webhook),
            ApiMethod("deleteWebhook", self._delete_webhook),
            ApiMethod("getWebhookInfo", self._get_webhook_info),
            ApiMethod("getUpdates", self._get_updates),
            ApiMethod("setMyCommands", self._set_my_commands),
            ApiMethod("getMyCommands", self._get_my_commands),
            ApiMethod("deleteMyCommands", self._delete_my_commands),
        )

    async def _get_me(self, params: Params) -> MethodResult:
        rights = {**BOT_RIGHTS, "can_read_all_group_messages": not self._config.group_privacy, "can_manage_bots": True}
        return MethodResult({**self._objects.me, **rights})

    async def _set_webhook(self, params: Params) -> MethodResult:
        url = str(params.get("url") or "")
        if not url:
            return await self._delete_webhook(params)
        now_ms = self._clock.now_ms()
        if now_ms < self._next_webhook_ms:
            raise TelegramError(429, "Too Many Requests: retry after 1", retry_after=1)
        self._next_webhook_ms = now_ms + 1000
        secret = str(params.get("secret_token") or "")
        if len(secret) > 256:
            raise TelegramError(400, "Bad Request: secret token is too long")
        if not re.fullmatch(r"[A-Za-z0-9_-]*", secret):
            raise TelegramError(400, "Bad Request: secret token contains unallowed characters")
        if not _is_address(url):
            raise TelegramError(400, "Bad Request: bad webhook: An HTTPS URL must be provided for webhook")
        connections = integer(params.get("max_connections"), 40)
        wanted = self._updates.webhook.allowed_updates
        if params.get("allowed_updates") is not None:
            wanted = _kinds(params["allowed_updates"])
        webhook = WebhookSettings(url, secret, min(max(connections, 1), 100), wanted)
        is_new = await self._updates.set_webhook(webhook, drop_pending=is_true(params.get("drop_pending_updates")))
        return MethodResult(True, "Webhook was set" if is_new else "Webhook is already set")

    async def _delete_webhook(self, params: Params) -> MethodResult:
        was_set = bool(self._updates.webhook.url)
        webhook = WebhookSettings(allowed_updates=self._updates.webhook.allowed_updates)
        await self._updates.set_webhook(webhook, drop_pending=is_true(params.get("drop_pending_updates")))
        return MethodResult(True, "Webhook was deleted" if was_set else "Webhook is already deleted")

    async def _get_webhook_info(self, params: Params) -> MethodResult:
        webhook = self._updates.webhook
        info: dict[str, Any] = {
            "url": webhook.url,
            "has_custom_certificate": False,
            "pending_update_count": self._updates.queue.pending(),
        }
        if webhook.url:
            info["max_connections"] = webhook.max_connections
        if webhook.allowed_updates:
            info["allowed_updates"] = list(webhook.allowed_updates)
        if (failed := self._updates.queue.last_error()) is not None and webhook.url:
            info.update(last_error_date=failed[0] // 1000, last_error_message=failed[1])
        return MethodResult(info)

    async def _get_updates(self, params: Params) -> MethodResult:
        """Wait for updates up to ``timeout`` seconds. A second call ends the first one with 409."""
        if self._updates.webhook.url:
            raise TelegramError(
                409,
                "Conflict: can't use getUpdates method while webhook is active;"
                " use deleteWebhook to delete the webhook first",
            )
        limit = min(max(integer(params.get("limit"), 100), 1), 100)
        timeout_s = min(max(integer(params.get("timeout"), 0), 0), MAX_POLL_S)
        offset = integer(params.get("offset"), 0)
        if params.get("allowed_updates") is not None:
            await self._updates.set_webhook(
                WebhookSettings(allowed_updates=_kinds(params["allowed_updates"])), drop_pending=False
            )
        return MethodResult(await self._polls.wait(offset=offset, limit=limit, timeout_s=timeout_s))

    async def _set_my_commands(self, params: Params) -> MethodResult:
        commands = parse_nested(params.get("commands", "[]"))
        names = (
            [c.get("command", "") if isinstance(c, dict) else "" for c in commands]
            if isinstance(commands, list)
            else [""]
        )
        if len(names) > 100 or not all(re.fullmatch(r"[a-z0-9_]{1,32}", str(name)) for name in names):
            raise TelegramError(400, "Bad Request: BOT_COMMAND_INVALID")
        if not all(1 <= len(str(command.get("description") or "")) <= 256 for command in commands):
            raise TelegramError(400, "Bad Request: BOT_COMMAND_DESCRIPTION_INVALID")
        self._keep_commands(params, commands)
        return MethodResult(True)

    async def _delete_my_commands(self, params: Params) -> MethodResult:
        self._keep_commands(params, [])
        return MethodResult(True)

    async def _get_my_commands(self, params: Params) -> MethodResult:
        return MethodResult(json.loads(self._store.get(_commands_key(params)) or "[]"))

    def _keep_commands(self, params: Params, commands: list[Any]) -> None:
        self._store.put(_commands_key(params), json.dumps(commands))


def _commands_key(params: Params) -> str:
    """The row of the commands for one scope and language; that of the default ones has the plain name."""
    scope, language = parse_nested(params.get("scope") or {"type": "default"}), str(params.get("language_code") or "")
    is_default = not language and isinstance(scope, dict) and scope.get("type") == "default"
    return "telegram.commands" if is_default else "telegram.commands" + json.dumps([scope, language], sort_keys=True)


def _kinds(given: Any) -> tuple[str, ...]:
    names = parse_nested(given)
    if not isinstance(names, list):
        raise TelegramError(400, "Bad Request: can't parse allowed updates JSON object")
    return tuple(name for name in KINDS if name in names)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
