"""The download of a file that a person sent, for ``Channel.fetch``.

A file's address comes from outside. So only hosts that the adapter names are asked, no redirect is followed, and no
byte beyond the limit is read. What comes is kept as it came: archives are never opened, and nothing is unpacked.
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlsplit

from shared.channels import platform_api
from shared.core.errors import FileTooLarge, NotFetched, PermanentError, RetryableError
from shared.runtime.http_client import Client

LIMIT_S = 120.0  # for the whole of one file, however slowly its bytes come


async def download(
    client: Client,
    platform: str,
    url: str,
    *,
    origins: Collection[str],
    limit_bytes: int,
    headers: Mapping[str, str] | None = None,
    promised_bytes: int | None = None,
) -> bytes:
    """The body at *url*, as it came.

    Args:
        platform: its name for people, such as ``Telegram``.
        origins: the scheme and host that may be asked, such as ``https://cdn.discordapp.com``.
        promised_bytes: the size that the platform gave with the message: a longer body is refused.

    Raises:
        NotFetched: the file can't be had.
        RetryableError: the platform can't be reached, is too slow, or has a failure of its own.
    """
    if origin_of(url) not in origins:
        raise NotFetched("its address is not one of this platform's hosts")
    most = limit_bytes if promised_bytes is None else min(limit_bytes, promised_bytes)
    try:
        async with asyncio.timeout(LIMIT_S):
            return await platform_api.download(client, platform, url, dict(headers or {}), limit_bytes=most)
    except FileTooLarge:
        raise NotFetched(_too_long(limit_bytes, promised_bytes)) from None
    except PermanentError as error:
        raise NotFetched(str(error)) from None
    except TimeoutError:
        raise RetryableError(f"it did not come within {LIMIT_S:g} s") from None


def origin_of(url: str) -> str | None:
    """The scheme and host of *url* in small letters; None where it has none, or names a user or odd characters."""
    try:
        address = urlsplit(url)
    except ValueError:
        return None
    if not url.isascii() or not url.isprintable() or not address.netloc:
        return None
    return f"{address.scheme}://{address.netloc}".lower()


def promised_bytes(attachment: Mapping[str, Any]) -> int | None:
    """The size that the platform gave with the message; None where it gave none."""
    size = attachment.get("size")
    return size if isinstance(size, int) and size >= 0 else None


def megabytes(size: int) -> str:
    """*size* in bytes as people read it, such as ``20 MiB``."""
    return f"{size / 1024**2:.3g} MiB" if size >= 1024**2 else f"{size} bytes"


def _too_long(limit_bytes: int, promised: int | None) -> str:
    if promised is not None and promised < limit_bytes:
        return "more bytes came than the platform had promised"
    return f"it is larger than {megabytes(limit_bytes)}"
