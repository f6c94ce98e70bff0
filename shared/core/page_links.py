"""Addresses of the operator's page, for what a person reads elsewhere: commands, logs, notices, alerts."""

from typing import Literal
from urllib.parse import quote

Page = Literal["message", "chat", "queue", "agents", "schedules", "approvals", "dropped", "replica", "overview"]

_PATHS: dict[Page, str] = {"message": "m", "chat": "c", "overview": ""}  # the others have their own names


_public_url = ""


def serve_at(public_url: str) -> None:
    """Let :func:`here` name addresses from now on; *public_url* as in the settings of this process."""
    global _public_url
    _public_url = public_url


def here(page: Page, id_: str | int | None = None) -> str:
    """The address of a page of this process's Postroom; empty where no address is set."""
    return link(_public_url, page, id_)


def link(public_url: str, page: Page, id_: str | int | None = None) -> str:
    """The address of a page, such as ``http://127.0.0.1:8080/#/m/telegram_1a2b``; empty where no address is set.

    Args:
        public_url: of the setting ``POSTROOM_PUBLIC_URL``.
        id_: the message's id, the chat's number, or the list of the queue (``dead``, ``waiting``).
    """
    return f"{public_url.rstrip('/')}/{place(page, id_)}" if public_url else ""


def place(page: Page, id_: str | int | None = None) -> str:
    """The same without the address of the operator's page, for a link on that page."""
    return f"#/{_PATHS.get(page, page)}" + ("" if id_ is None else f"/{quote(str(id_), safe='')}")
