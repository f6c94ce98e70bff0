"""The answer to ``/why``: why the last message of a chat has no answer, or one message by its id."""

import apsw

from shared.conversation.routing import commands
from shared.conversation.routing.effects import TellWhy
from shared.core import page_links
from shared.core.page_links import Page
from shared.core.policy import AccessPolicy
from shared.db.roster.chats import Chat
from shared.db.views import unanswered
from shared.db.views.unanswered import Unanswered


def answer(conn: apsw.Connection, chat: Chat, asked: TellWhy, policy: AccessPolicy, *, now_ms: int) -> str:
    """A sentence for the admin, with the address of the page that shows the message."""
    if asked.ref is None:
        found = unanswered.latest(conn, chat, now_ms=now_ms)
        return commands.NOTHING_UNANSWERED if found is None else _explained(found, policy, now_ms)
    found = unanswered.find(conn, asked.ref, now_ms=now_ms)
    if found is None or not _may_know(found, chat, asked):
        return commands.not_found(asked.ref)
    return _explained(found, policy, now_ms)


def _may_know(found: Unanswered, chat: Chat, asked: TellWhy) -> bool:
    is_here = (found.channel, found.platform_id) == (chat.channel, chat.platform_id)
    return is_here or asked.sender.administers(found.agent or "")


def _explained(found: Unanswered, policy: AccessPolicy, now_ms: int) -> str:
    pages: dict[str, Page] = {"dropped": "dropped", "held": "approvals"}
    page = pages.get(found.id.partition("_")[0], "message")
    link = page_links.link(policy.public_url, page, found.id if page == "message" else None)
    return commands.explained(found, link, now_ms=now_ms)
