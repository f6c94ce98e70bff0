"""The files of a message in the form of the Bot API: ``photo``, ``document``, ``voice`` and their kin.

Source: https://core.telegram.org/bots/api#message, #photosize, #document
"""

from collections.abc import Mapping
from typing import Any

_WITH_SIZES = ("video", "animation")
_STILL = {"is_animated": False, "is_video": False}
_WITHOUT_NAME = ("voice", "video_note", "photo", "sticker")


def wired(shown: Mapping[str, Any], file_id: str) -> dict[str, Any]:
    """The fields of a Message object for one file of ``detail["files"]``."""
    kind, known = str(shown["kind"]), {"file_id": file_id, "file_unique_id": str(shown["id"])[:15]}
    width, height = int(shown.get("width") or 320), int(shown.get("height") or 240)
    if kind == "photo":
        return {"photo": [{**known, "width": width, "height": height, "file_size": shown["size"]}]}
    body: dict[str, Any] = {**known, "file_size": shown["size"]}
    if kind == "sticker":
        return {kind: {**body, "width": width, "height": height, "type": "regular", **_STILL}}
    if kind != "video_note":
        body["mime_type"] = shown["mime"]
    if kind not in _WITHOUT_NAME:
        body["file_name"] = shown["name"]
    if kind in _WITH_SIZES:
        body |= {"width": width, "height": height}
    if kind == "video_note":
        body["length"] = width
    if kind in (*_WITH_SIZES, "video_note", "voice", "audio"):
        body["duration"] = int(shown.get("duration") or 1)
    # An animation stands in the message as a document too.
    return {kind: body, "document": _as_document(body)} if kind == "animation" else {kind: body}


def _as_document(body: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in ("width", "height", "duration")}
