"""Files in messages of the fake Discord: multipart uploads, and the CDN that serves them by signed, expiring addresses.

Source: https://discord.com/developers/docs/reference#uploading-files, #signed-attachment-cdn-urls
"""

import hashlib
import hmac
import mimetypes
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from aiohttp import web

from emulator.platforms.config import Clock
from emulator.platforms.discord.app import DiscordApp
from emulator.platforms.store import PlatformStore

LIFE_MS = 24 * 3_600_000


class Cdn:
    """Serves attachments below ``/discord/cdn``; ``url`` is the fake's own address, known from its start."""

    def __init__(self, clock: Clock, store: PlatformStore, app: DiscordApp) -> None:
        self._clock, self._store, self._key = clock, store, app.key.encode()
        self.url = ""

    def routes(self) -> list[web.AbstractRouteDef]:
        return [web.get("/discord/cdn/attachments/{channel}/{attachment}/{name}", self._serve)]

    def attachment(self, channel: str, shown: Mapping[str, Any]) -> dict[str, Any]:
        """The Attachment object of one entry of ``detail["files"]``, with a fresh address."""
        known = {
            "id": shown["attachment"],
            "filename": shown["name"],
            "size": shown["size"],
            "content_type": shown["mime"],
            "original_content_type": shown["mime"],
            "content_scan_version": 0,
            "placeholder_version": 1,
        }
        address = self._address(channel, shown)
        more = {key: shown[key] for key in ("width", "height", "description", "duration_secs") if key in shown}
        return {**known, "url": address, "proxy_url": address, **more}

    def _address(self, channel: str, shown: Mapping[str, Any]) -> str:
        now_ms = self._clock.now_ms()
        path = f"{channel}/{shown['attachment']}/{quote(shown['name'], safe='')}"
        issued, expires = f"{now_ms // 1000:x}", f"{(now_ms + LIFE_MS) // 1000:x}"
        signed = self._signature(channel, shown["attachment"], expires)
        return f"{self.url}/discord/cdn/attachments/{path}?ex={expires}&is={issued}&hm={signed}&"

    def _signature(self, channel: str, attachment: str, expires: str) -> str:
        return hmac.new(self._key, f"{channel}/{attachment}/{expires}".encode(), hashlib.sha256).hexdigest()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        """The bytes; 404 with Discord's sentence where the address is expired, changed or never was."""
        match, expires = request.match_info, request.query.get("ex", "")
        signed = self._signature(match["channel"], match["attachment"], expires)
        is_signed = hmac.compare_digest(signed.encode(), request.query.get("hm", "").encode())
        file = self._find(match["channel"], match["attachment"]) if is_signed else None
        if file is None or int(expires, 16) * 1000 < self._clock.now_ms():
            return web.Response(status=404, text="This content is no longer available.")
        return web.Response(body=file.data, content_type=file.mime)

    def _find(self, channel: str, attachment: str) -> Any:
        row = self._store.conn.execute(
            "SELECT files.id FROM messages, json_each(messages.detail, '$.files') AS shown"
            " JOIN files ON files.id = shown.value ->> '$.id'"
            " WHERE platform = 'discord' AND chat = ? AND shown.value ->> '$.attachment' = ? AND deleted_ms IS NULL",
            (channel, attachment),
        ).fetchone()
        return self._store.files.get(row[0]) if row else None


def mime_of(name: str, given: str | None) -> str:
    """The media type of an upload: what its part says, else what its name says."""
    if given and given != "application/octet-stream":
        return given
    return mimetypes.guess_type(name)[0] or "application/octet-stream"
