"""What a call of the Bot API counts against, and what its answer says about Telegram's limits. Pure.

Telegram names no scope: a 429 is about the chat that was written to. It is about the bot where two chats get one within
a second, where the call names no chat, or where it lasts more than a minute and the next chat gets one too.

Source: https://core.telegram.org/bots/api (10.3): #making-requests (``parameters.retry_after``),
https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this.
"""

import re
from collections.abc import Mapping
from typing import Any

from shared.core.call_scopes import NO_LIMITS, CallAllowance, CallLimits, CallScopes, LimitHold, Scope

DEFAULT_WAIT_MS = 5_000
OF_THE_CHAT_MS = 60_000  # a longer wait may be about the bot
LONGEST_WAIT_S = 86_400  # more is no wait that anybody means, and would stop the bot for good
_BOT = Scope("bot")
_MESSAGES = ("send", "edit")
_NO_MESSAGES = ("sendChatAction", "sendMessageDraft")
_OF_THE_METHOD = ("set", "get", "delete")  # without a chat: they configure the bot, and have limits of their own


def scopes_of(account: str, method: str, body: Mapping[str, Any]) -> CallScopes:
    """The scopes of a call of *method* with these parameters."""
    chat = body.get("chat_id")
    if chat is None:
        return CallScopes(account, "telegram", method, (_BOT, Scope("method", method)), read)
    scopes = (_BOT, Scope("method", method), Scope("chat", str(chat)))
    if not method.startswith(_MESSAGES) or method in _NO_MESSAGES:
        return CallScopes(account, "telegram", method, scopes, read)
    album = body.get("media")
    weight = len(album) if isinstance(album, list | tuple) and album else 1
    return CallScopes(account, "telegram", method, scopes, read, None, allowances(str(chat)), weight)


def allowances(chat: str) -> tuple[CallAllowance, ...]:
    """What Telegram lets through of messages and edits to *chat*: of the bot, of the chat, and of a group.

    "About one message a second" in a chat lets short bursts pass: five at once, and one a second on average. An album
    of ten is such a burst too; the longer window makes up for it.
    """
    one = Scope("chat", chat)
    long_ms = 20_000 if chat.isdecimal() else 60_000
    return CallAllowance(_BOT, 30, 1000), CallAllowance(one, 5, 5000), CallAllowance(one, 20, long_ms)


def read(scopes: CallScopes, status: int, headers: Mapping[str, str], payload: Mapping[str, Any]) -> CallLimits:
    """The wait that an answer asks for, and its scope."""
    if status != 429:
        return NO_LIMITS
    wait_ms = retry_after_ms(payload, headers)
    reason = f"Telegram asked for a wait of {wait_ms // 1000} s"
    scope = _scope(scopes)
    if scope.kind != "chat":
        return CallLimits((LimitHold(scope, wait_ms, reason),))
    return CallLimits((LimitHold(scope, wait_ms, reason, _BOT, is_doubtful=wait_ms > OF_THE_CHAT_MS),))


def _scope(scopes: CallScopes) -> Scope:
    chat = next((scope for scope in scopes.scopes if scope.kind == "chat"), None)
    if chat is not None:
        return chat
    return Scope("method", scopes.method) if scopes.method.startswith(_OF_THE_METHOD) else _BOT


def retry_after_ms(payload: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> int:
    """The wait in the body, else in the ``Retry-After`` header, else a few seconds; a day at most."""
    match payload:
        case {"parameters": {"retry_after": int(seconds)}}:
            return min(max(seconds, 1), LONGEST_WAIT_S) * 1000
    said = (headers or {}).get("retry-after", "")
    return min(max(int(said), 1), LONGEST_WAIT_S) * 1000 if re.fullmatch(r"[0-9]{1,9}", said) else DEFAULT_WAIT_MS
