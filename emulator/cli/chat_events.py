"""The events of a chat, as the person at the terminal reads them."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp

from emulator.base import errors
from emulator.base.errors import EmulatorError
from emulator.cli import client
from emulator.cli.chat_commands import Speaker, choices, is_for, keys
from emulator.cli.output import shorten


@dataclass(frozen=True, slots=True)
class ChatEvent:
    """An event in this chat: a ``reply`` with its text, a line that another person ``said``, ``typing``,
    ``trouble`` with a reason, or ``delivered``: the bot has the message whose id is the text.
    """

    kind: str
    text: str = ""
    is_final: bool = False


@asynccontextmanager
async def chat_events(
    session: aiohttp.ClientSession, speaker: Speaker
) -> AsyncIterator["asyncio.Queue[ChatEvent | None]"]:
    """The events in this chat from now on; None at the end. It listens before the first line is sent."""
    queue: asyncio.Queue[ChatEvent | None] = asyncio.Queue()
    try:
        response = await session.get(f"{speaker.root}/events")
    except (aiohttp.ClientError, OSError):
        raise errors.NotReady("the emulator does not answer") from None
    async with response:
        if response.status != 200:
            raise EmulatorError(f"the emulator answered {response.status} to the request for events")
        await response.content.readline()  # the first line: from here on no event is missed
        reader = asyncio.create_task(_read(response, speaker, queue))
        try:
            yield queue
        finally:
            reader.cancel()
            with suppress(asyncio.CancelledError):
                await reader


async def _read(response: aiohttp.ClientResponse, speaker: Speaker, queue: "asyncio.Queue[ChatEvent | None]") -> None:
    name, seen = "", dict[str, ChatEvent]()
    with suppress(aiohttp.ClientError, OSError):
        async for raw in response.content:
            line = raw.decode().rstrip("\n")
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                news = json.loads(line.removeprefix("data: "))
                step = _step(name, news, speaker) if _is_here(news, speaker) else None
                # An event carries the present state of a message, so quick changes repeat the same state.
                is_repeated = name == "message" and seen.get(news.get("id")) == step
                if step is not None and not is_repeated:
                    queue.put_nowait(step)
                    if name == "message":
                        seen[news["id"]] = step
    queue.put_nowait(None)


def _is_here(news: Mapping[str, Any], speaker: Speaker) -> bool:
    is_in_topic = speaker.thread is None or news.get("thread", speaker.thread) == speaker.thread
    return news.get("platform") == speaker.platform and news.get("chat") == speaker.chat and is_in_topic


def _step(name: str, news: Mapping[str, Any], speaker: Speaker) -> ChatEvent | None:
    """The chat event for one server-sent event; None if the person at the terminal need not see it."""
    if name == "typing":
        return ChatEvent("typing")
    if name == "notice" and news.get("person") == speaker.person:
        return ChatEvent("reply", str(news["text"]))
    if name == "message" and "author" in news and is_for(news, speaker):
        return _message_step(news, speaker)
    if name == "delivery" and news["state"] == "delivered" and news.get("kind") == "message" and news.get("message"):
        return ChatEvent("delivered", str(news["message"]))
    if name == "delivery" and news.get("error"):
        if news["state"] == "dropped":
            notice = news.get("notice") or "The platform stopped trying"
            return ChatEvent("trouble", f"{notice}: {news['error']}.", is_final=True)
        return ChatEvent(
            "trouble", f"The webhook failed, attempt {news['attempts']} ({news['error']}); the platform tries again."
        )
    return None


def _message_step(message: Mapping[str, Any], speaker: Speaker) -> ChatEvent | None:
    author = message["author"]
    if author["is_bot"]:
        return (
            ChatEvent("typing")
            if message.get("state") == "thinking"
            else ChatEvent("reply", _text_with_buttons(message))
        )
    if author["id"] != speaker.person:
        return ChatEvent("said", f"{author['name']}: {_text_with_buttons(message)}")
    # A reaction says something too: that the bot has seen the message.
    chosen = [emoji for emoji, ids in (message.get("reacted") or {}).items() if set(ids) - {speaker.person}]
    words = f"{' '.join(chosen)} to: {shorten(message['text'])}"
    return ChatEvent("said", words) if chosen else None


def _text_with_buttons(message: Mapping[str, Any]) -> str:
    """The files, the text, and below it the buttons with their numbers."""
    found = keys(message)
    files = [f"[{file['kind']} {file['name']}, {file['size']} bytes]" for file in message.get("files") or ()]
    lines = [*files, str(message["text"])] if message["text"] or not files else files
    return "\n".join([*lines, f"{choices(found)}  (/press 1)"] if found else lines)


_WHY_LIMIT_S = 2.0
_ANSWERED = ("command_", "pairing_", "rate_limited")  # what a sentence of ours answers, though it is dropped
Explain = Callable[[str], Awaitable[str | None]]
"""Of the id of a message: why nothing came of it, or None."""


async def why_silent(speaker: Speaker, account: str, state: Path | None, message: str) -> str | None:
    """Why nothing came of the speaker's message, in the words of ``emulator why``; None if something did."""
    try:
        api = replace(client.find(state, None), limit_s=_WHY_LIMIT_S)
        of = {"ref": message, "platformId": speaker.chat, "channel": account, "senderId": speaker.person}
        found = await asyncio.to_thread(api.get, "why", **of)
    except EmulatorError:  # the chat goes on without it
        return None
    if any(each["what"] != "dropped" or each["code"].startswith(_ANSWERED) for each in found):
        return None
    return next((str(each["reason"]) for each in found), None)
