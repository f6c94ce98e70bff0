"""Files that people sent, as ``getFile`` tells of them. Pure.

Source: https://core.telegram.org/bots/api (10.3): #getfile, #file.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from shared.channels import downloads, platform_api
from shared.channels.platform_api import ApiAnswer
from shared.channels.telegram.answers import classify
from shared.channels.telegram.attachments import DOWNLOAD_BYTES
from shared.core.errors import NotFetched, PermanentError

__all__ = ["DOWNLOAD_BYTES", "RemoteFile", "file_of", "id_of"]


class RemoteFile(msgspec.Struct, frozen=True):
    """A file on Telegram's server: its *path* for a URL, and its size in bytes or None."""

    path: str
    size: int | None


def id_of(attachment: Mapping[str, Any], limit_bytes: int) -> str:
    """The id to ask for.

    Raises:
        NotFetched: there is none, or the file is too large to ask.
    """
    file_id, size = attachment.get("file_id"), downloads.promised_bytes(attachment)
    if not isinstance(file_id, str) or not file_id:
        raise NotFetched("Telegram gave no id with which it could be fetched")
    if size is not None and size > limit_bytes:
        raise _too_large(limit_bytes)
    return file_id


def file_of(answer: ApiAnswer, limit_bytes: int) -> RemoteFile:
    """The file that an answer to ``getFile`` names.

    Raises:
        NotFetched: Telegram does not give the file.
        RetryableError: Telegram can't be asked now.
    """
    if "file is too big" in str(answer.payload.get("description", "")).lower():
        raise _too_large(min(limit_bytes, DOWNLOAD_BYTES))
    try:
        platform_api.expect_success(classify(answer.status, answer.payload))
    except PermanentError as error:
        raise NotFetched(f"Telegram no longer has it for this bot ({error})") from None
    match answer.payload:
        case {"result": {"file_path": str(path), **facts}} if path:
            size = facts.get("file_size")
            return RemoteFile(_safe(path), size if isinstance(size, int) else None)
    raise NotFetched("Telegram does not say where it is")


def _safe(path: str) -> str:
    """A path below the bot's folder. A Bot API server of one's own may name one of its own disk."""
    if path.startswith("/"):
        raise NotFetched("the Bot API server keeps it on its own disk: start that server without --local")
    if re.search(r"(^|/)\.\.?(/|$)|[\\\x00-\x1f]", path):
        raise NotFetched("Telegram names it by an odd path")
    return quote(path)


def _too_large(limit_bytes: int) -> NotFetched:
    return NotFetched(f"it is larger than {downloads.megabytes(limit_bytes)}")
