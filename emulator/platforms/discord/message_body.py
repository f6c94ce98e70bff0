"""The body of a message that a bot creates or edits: text, components, embeds, and the files of a multipart request.

Source: https://discord.com/developers/docs/resources/message#create-message, reference#uploading-files,
components/reference#component-reference
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from emulator.platforms import file_formats, files
from emulator.platforms.config import Clock
from emulator.platforms.discord import component_tree
from emulator.platforms.discord.attachments import mime_of
from emulator.platforms.discord.calls import (
    DiscordError,
    components,
    content_of,
    flags_of,
    invalid,
    pings_of,
    read_body,
)
from emulator.platforms.discord.snowflakes import Snowflakes
from emulator.platforms.store import FakeMessage, PlatformStore

COMPONENTS_V2 = 1 << 15
SUPPRESS_EMBEDS = 1 << 2
CHANGEABLE = COMPONENTS_V2 | SUPPRESS_EMBEDS  # the flags that an edit may set
MAX_FILES, MAX_FILE_BYTES, MAX_COMPONENTS, MAX_V2_TEXT = 10, 10 << 20, 40, 4000
MAX_POLL_ANSWER = 55
_PART = re.compile(r"files\[(\d{1,4})\]")


class UploadedPart(msgspec.Struct, frozen=True):
    """A part ``files[n]``; *number* is n, which ``attachments[].id`` refers to."""

    number: str
    name: str
    mime: str
    data: bytes


async def read_message(request: web.Request) -> tuple[dict[str, Any], list[UploadedPart]]:
    """The JSON object of a request, and its files. Raises 50035, 40005 for a large file."""
    body = await read_body(request)
    if request.content_type != "multipart/form-data":
        return body, []
    uploads = []
    for key, value in (await request.post()).items():
        if isinstance(value, web.FileField) and (named := _PART.fullmatch(key)):
            with value.file as part:  # a request of a further account closes none
                data = part.read()
            if len(data) > MAX_FILE_BYTES:
                raise DiscordError(413, 40005, "Request entity too large")
            uploads.append(UploadedPart(named[1], value.filename, mime_of(value.filename, value.content_type), data))
    if len(uploads) > MAX_FILES:
        raise invalid("attachments", "BASE_TYPE_MAX_LENGTH", f"Must be {MAX_FILES} or fewer in length.")
    return body, uploads


class MessageBodies:
    """Turns bodies into the text and the detail of a message. Every method raises DiscordError."""

    def __init__(self, clock: Clock, store: PlatformStore, snowflakes: Snowflakes) -> None:
        self._clock, self._store, self._snowflakes = clock, store, snowflakes

    def created(
        self, body: Mapping[str, Any], uploads: list[UploadedPart], *, pings: tuple[str, ...]
    ) -> tuple[str, dict[str, Any]]:
        """Text and detail of a new message; *pings* are the kinds that ping where the body does not say."""
        flags = flags_of(body)
        shown = self._kept(body, uploads, [])
        content = content_of({**body, "attachments": shown})
        pinged, would_ping = pings_of(content, body.get("allowed_mentions"), default=pings)
        return content, {
            "pings": pinged,
            "would_ping": would_ping,
            "flags": flags,
            "components": _components(body, flags, shown),
            "embeds": [{"type": "rich", **embed} for embed in body.get("embeds") or ()],
            "files": shown,
            **_poll(body),
        }

    def edited(
        self, message: FakeMessage, body: Mapping[str, Any], uploads: list[UploadedPart]
    ) -> tuple[str, dict[str, Any]]:
        """Text and new detail of *message*: what *body* names; the rest stays. Attachments not listed are removed."""
        flags = message.detail.get("flags", 0) | (flags_of(body) & CHANGEABLE)
        before = files.of(message.detail)
        shown = self._kept(body, uploads, before)
        changed: dict[str, Any] = {"files": shown, "flags": flags, **_poll(body)}
        if "components" in body:
            changed["components"] = _components(body, flags, shown)
        if "embeds" in body:
            changed["embeds"] = [{"type": "rich", **embed} for embed in body["embeds"] or ()]
        kept = {**message.detail, **changed}
        all_of = {"attachments": shown, **{name: kept.get(name) for name in ("components", "embeds", "poll")}}
        text = body.get("content", message.text)
        return content_of({**all_of, "content": text}), changed

    def _kept(
        self, body: Mapping[str, Any], uploads: list[UploadedPart], before: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """The files of the message: those of *before* that ``attachments`` lists, then the uploads."""
        listed = body.get("attachments")
        about = {str(each.get("id")): each for each in listed or () if isinstance(each, dict)}
        numbers = {upload.number for upload in uploads}
        known = {shown["attachment"] for shown in before}
        if strange := set(about) - numbers - known:
            raise invalid("attachments", "ATTACHMENT_NOT_FOUND", f"Attachment {min(strange)} not found.")
        kept = before if listed is None else [shown for shown in before if shown["attachment"] in about]
        return [*kept, *(self._upload(upload, about.get(upload.number, {})) for upload in uploads)]

    def _upload(self, upload: UploadedPart, about: Mapping[str, Any]) -> dict[str, Any]:
        name = _clean_name(str(about.get("filename") or upload.name or "file"))
        stored = self._store.files.add(name, upload.mime, upload.data, now_ms=self._clock.now_ms())
        size = file_formats.image_size(upload.data)
        shape = {"width": size[0], "height": size[1]} if size else {}
        kind = {"image": "photo", "video": "video", "audio": "audio"}.get(upload.mime.partition("/")[0], "document")
        more = {"description": about["description"]} if about.get("description") else {}
        return stored.shown(kind, attachment=str(self._snowflakes.next()), **shape, **more)


def _poll(body: Mapping[str, Any]) -> dict[str, Any]:
    """What the detail of a message keeps of a poll in *body*. Raises 50035 where it is too long.

    Source: https://discord.com/developers/docs/resources/poll#poll-create-request-object
    """
    if not (given := body.get("poll")):
        return {}
    question, options = _words(given.get("question")), [_words(each.get("poll_media")) for each in given["answers"]]
    if not question or not all(options):
        raise invalid("poll", "BASE_TYPE_REQUIRED", "This field is required")
    if any(len(each) > MAX_POLL_ANSWER for each in options):
        why = f"Must be {MAX_POLL_ANSWER} or fewer in length."
        raise invalid("poll", "POLL_ANSWER_TEXT_TOO_LONG", why)
    hours, multiple = given.get("duration") or 24, bool(given.get("allow_multiselect"))
    return {"poll": {"question": question, "options": options, "multiple": multiple, "hours": hours}}


def _words(media: Any) -> str:
    return str(media.get("text") or "") if isinstance(media, Mapping) else ""


def _clean_name(name: str) -> str:
    """The name as Discord keeps it: blanks become underscores, and what is no plain character goes."""
    return re.sub(r"[^\w.()-]", "", name.replace(" ", "_"))[:260] or "unknown"


def _components(body: Mapping[str, Any], flags: int, shown: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The checked components: rows of buttons and selects, or any tree with the flag for version 2."""
    if not flags & COMPONENTS_V2:
        return components(body)
    for legacy in ("content", "embeds", "poll", "sticker_ids"):
        if body.get(legacy):
            code = "MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2"
            raise invalid(legacy, code, f"The '{legacy}' field cannot be used when using MessageFlags.IS_COMPONENTS_V2")
    tree: list[dict[str, Any]] = list(body.get("components") or ())
    every = list(component_tree.walk(tree))
    if len(every) > MAX_COMPONENTS:
        raise invalid("components", "BASE_TYPE_BAD_LENGTH", f"Must be between 1 and {MAX_COMPONENTS} in length.")
    if sum(len(text) for text in component_tree.texts(tree)) > MAX_V2_TEXT:
        raise invalid("components", "COMPONENT_MAX_TEXT", f"The total text must be {MAX_V2_TEXT} or fewer in length.")
    named = [each["custom_id"] for each in every if "custom_id" in each]
    if len(set(named)) < len(named):
        raise invalid("components", "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id cannot be duplicated")
    missing = _referenced(every) - {each["name"] for each in shown}
    if missing:
        code = "UNFURLED_MEDIA_ITEM_REFERENCED_ATTACHMENT_NOT_FOUND"
        raise invalid("components", code, f"The referenced attachment '{min(missing)}' was not found.")
    return tree


def _referenced(every: list[Mapping[str, Any]]) -> set[str]:
    """The names behind ``attachment://`` in files, thumbnails and galleries."""
    media = [each.get(key) for each in every for key in ("file", "media")]
    media += [item.get("media") for each in every for item in each.get("items") or () if isinstance(item, Mapping)]
    addresses = [str(one.get("url", "")) for one in media if isinstance(one, Mapping)]
    return {address.removeprefix("attachment://") for address in addresses if address.startswith("attachment://")}
