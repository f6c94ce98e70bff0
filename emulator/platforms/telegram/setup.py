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
from emulator.platforms.telegram.queue import KINDS
from emulator.platforms.telegram.updates import UpdateDelivery, WebhookSettings


class TelegramSetup:
    """Methods for the deployment of a bot; none of them concerns a chat."""

    def __init__(
        self, config: PlatformsConfig, store: PlatformStore, objects: TelegramObjects, updates: UpdateDelivery
    ) -> None:
        self._config, self._store, self._objects, self._updates = config, store, objects, updates
        self._clock = config.clock
        self._next_webhook_ms = 0

    def methods(self) -> tuple[ApiMethod, ...]:
        webhook = "url certificate ip_address max_connections allowed_updates drop_pending_updates secret_token"
        return (
            ApiMethod("getMe", self._get_me, ""),
            ApiMethod("setWebhook", self._set_webhook, webhook),
            ApiMethod("deleteWebhook", self._delete_webhook, "drop_pending_updates"),
            ApiMethod("getWebhookInfo", self._get_webhook_info, ""),
            ApiMethod("getUpdates", self._get_updates, "offset limit timeout allowed_updates"),
            ApiMethod("setMyCommands", self._set_my_commands, "commands scope language_code"),
            ApiMethod("getMyCommands", self._get_my_commands, "scope language_code"),
        )

    async def _get_me(self, params: Params) -> MethodResult:
        me = {
            "can_join_groups": True,
            "can_read_all_group_messages": not self._config.group_privacy,
            "supports_inline_queries": False,
            "can_connect_to_business": False,
            "has_main_web_app": False,
        }
        return MethodResult({**self._objects.me, **me})

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
            names = parse_nested(params["allowed_updates"])
            if not isinstance(names, list):
                raise TelegramError(400, "Bad Request: can't parse allowed updates JSON object")
            wanted = tuple(name for name in KINDS if name in names)
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
        """Answers at once with the pending updates, without long polling."""
        if self._updates.webhook.url:
            raise TelegramError(
                409,
                "Conflict: can't use getUpdates method while webhook is active;"
                " use deleteWebhook to delete the webhook first",
            )
        limit = min(max(integer(params.get("limit"), 100), 1), 100)
        return MethodResult(self._updates.queue.take(offset=integer(params.get("offset"), 0), limit=limit))

    async def _set_my_commands(self, params: Params) -> MethodResult:
        commands = parse_nested(params.get("commands", "[]"))
        names = (
            [c.get("command", "") if isinstance(c, dict) else "" for c in commands]
            if isinstance(commands, list)
            else [""]
        )
        if len(names) > 100 or not all(re.fullmatch(r"[a-z0-9_]{1,32}", str(name)) for name in names):
            raise TelegramError(400, "Bad Request: BOT_COMMAND_INVALID")
        self._store.put("telegram.commands", json.dumps(commands))
        return MethodResult(True)

    async def _get_my_commands(self, params: Params) -> MethodResult:
        return MethodResult(json.loads(self._store.get("telegram.commands") or "[]"))


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
