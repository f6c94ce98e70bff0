"""The terminal chat: lines go to the agent through a fake platform, replies are printed as they come.

Buttons under a message are numbered: ``/press 2`` presses the second under the latest message that has any,
``/press 2.1`` the first under the second-latest, and ``/press`` lists them.
"""

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import aiohttp

from emulator.base import errors
from emulator.base.errors import EmulatorError
from emulator.base.hints import command_line
from emulator.cli.output import shorten

TIMED_OUT = errors.TimedOut.exit_code
QUIET_S = 0.7  # after a reply: how long nothing may come before a single question counts as answered


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who speaks where: *root* is the chat page's address, *person* and *chat* are ids on *platform*.

    *called* is what has to be in a text that is meant for the bot; empty where everything is.
    """

    root: str
    platform: str
    person: str
    name: str
    chat: str
    called: str = ""


@dataclass(frozen=True, slots=True)
class ChatEvent:
    """One thing that happened in this chat: a ``reply`` with its text, what somebody else ``said``, ``typing``, or
    ``trouble`` with a reason.
    """

    kind: str
    text: str = ""
    is_final: bool = False


def run_chat(
    platform: str,
    *,
    base_url: str,
    person: str,
    once: str | None,
    timeout_s: float,
    chat: str | None = None,
    state: Path | None = None,
) -> int:
    """Talk to the agent as *person* (a name or an id) until Ctrl-D; with *once*, say that and print the replies.

    *chat* is the title or the id of a group that the person is in; else it is their own chat with the bot. *state* is
    the emulator's folder, for the commands that are advised.

    Returns 0; 75 when *once* had no reply within *timeout_s*; else the code of what failed, with its sentence said.
    """
    try:
        return asyncio.run(
            _chat(platform, chat, base_url=base_url, person=person, once=once, timeout_s=timeout_s, state=state)
        )
    except EmulatorError as problem:
        _write(f"error: {problem}\n", sys.stderr)
        return problem.exit_code
    except KeyboardInterrupt:
        return 130


async def _chat(
    platform: str,
    chat: str | None,
    *,
    base_url: str,
    person: str,
    once: str | None,
    timeout_s: float,
    state: Path | None,
) -> int:
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        speaker = await _find_speaker(session, platform, base_url=base_url, person=person, chat=chat)
        async with _steps(session, speaker) as steps:
            if once is None:
                last = await _interactive(session, speaker, steps)
            else:
                await _say(session, speaker, once)
                last = once
            if last is None:
                return 0
            return await _replies(steps, timeout_s, _advice(speaker, last, state))


def _advice(speaker: Speaker, text: str, state: Path | None) -> str:
    """Where to look, when nothing answers *text*."""
    is_meant = speaker.called.casefold() in text.casefold()
    meant = "" if is_meant else f" Here the bot is meant when it is named, {speaker.called}, or replied to."
    waits, refused = command_line("messages list --status pending", state), command_line("dropped", state)
    return f"{meant} `{waits}` says what is tried again, and why; `{refused}` what was refused."


async def _replies(steps: "asyncio.Queue[ChatEvent | None]", timeout_s: float, advice: str) -> int:
    """Print replies until it has been quiet for a while: 0, or 75 with a sentence when none came."""
    trouble, replied, is_final = "", False, False
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout_s
    while True:
        wait_s = min(QUIET_S, end - loop.time()) if replied else end - loop.time()
        try:
            step = await asyncio.wait_for(steps.get(), max(0.0, wait_s))
        except TimeoutError:
            break
        if step is None:
            raise errors.NotReady("the emulator went away in the middle of the chat")
        if step.kind == "reply":
            _write(f"{step.text}\n", sys.stdout)
            replied = True
        elif step.kind == "trouble":
            trouble, is_final = f" {step.text}", step.is_final
            if is_final:
                break
    if replied:
        return 0
    how_long = "" if is_final else f" within {timeout_s:g} s"
    _write(f"No reply{how_long}.{trouble}{advice}\n", sys.stderr)
    return TIMED_OUT


async def _interactive(
    session: aiohttp.ClientSession, speaker: Speaker, steps: "asyncio.Queue[ChatEvent | None]"
) -> str | None:
    """Lines out, replies in, until the input ends.

    Returns: the last line, if its reply is to be waited for, as for input that is no terminal.
    """
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        called = f" The bot is {speaker.called}: name it, and it answers." if speaker.called else ""
        _write(f"You are {speaker.name} on {speaker.platform}.{called} Enter sends, Ctrl-D ends.\n", sys.stdout)
    screen = ChatScreen(f"{speaker.name}> " if is_terminal else "")
    printer = asyncio.create_task(screen.follow(steps))
    try:
        lines = _InputLines()
        screen.show_prompt()
        while (line := await lines.next(printer)) is not None:
            if line.strip():
                await screen.say(session, speaker, line.strip())
            screen.show_prompt()
    finally:
        printer.cancel()
        with suppress(asyncio.CancelledError):
            await printer
    if is_terminal:
        _write("\n", sys.stdout)
    elif screen.is_waiting:
        return screen.said
    return None


class ChatScreen:
    """What stands on the terminal: the prompt, and whatever comes above it."""

    def __init__(self, prompt: str) -> None:
        self.prompt = prompt
        self.is_waiting = False
        self.said = ""
        self._erase = "\r\033[K" if prompt else ""

    def show_prompt(self) -> None:
        _write(self.prompt, sys.stdout)

    async def say(self, session: aiohttp.ClientSession, speaker: Speaker, text: str) -> None:
        try:
            await _say(session, speaker, text)
            self.is_waiting, self.said = True, text
        except EmulatorError as problem:
            _write(f"  ! {problem}\n", sys.stdout)

    async def follow(self, steps: "asyncio.Queue[ChatEvent | None]") -> None:
        """Print what comes over the prompt, and draw the prompt again."""
        while (step := await steps.get()) is not None:
            if step.kind == "reply":
                self.is_waiting = False
                _write(f"{self._erase}{_indent(step.text)}\n{self.prompt}", sys.stdout)
            elif step.kind in ("said", "trouble"):
                mark = "! " if step.kind == "trouble" else ""
                _write(f"{self._erase}  {mark}{step.text}\n{self.prompt}", sys.stdout)
        self.is_waiting = False
        _write(f"{self._erase}The emulator went away.\n", sys.stderr)


class _InputLines:
    """Standard input, line by line, without a thread that a blocked read could keep alive."""

    def __init__(self) -> None:
        self._descriptor = sys.stdin.fileno()
        self._buffer = b""

    async def next(self, printer: "asyncio.Task[None]") -> str | None:
        """The next line, None at the end or when *printer* is done: the emulator went away."""
        while b"\n" not in self._buffer:
            if not await self._is_readable(printer):
                return None
            chunk = os.read(self._descriptor, 4096)
            if not chunk:
                rest, self._buffer = self._buffer, b""
                return rest.decode(errors="replace") or None
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line.decode(errors="replace")

    async def _is_readable(self, printer: "asyncio.Task[None]") -> bool:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        try:
            loop.add_reader(self._descriptor, _finish, ready)
        except (OSError, ValueError):  # a plain file can't be waited for, and never blocks
            return not printer.done()
        try:
            waited: set[asyncio.Future[Any]] = {ready, printer}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_reader(self._descriptor)
        return ready.done()


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


async def _find_speaker(
    session: aiohttp.ClientSession, platform: str, *, base_url: str, person: str, chat: str | None
) -> Speaker:
    """Find the chat page (straight, or behind the gateway) and *person*'s conversation with the bot."""
    if platform not in ("telegram", "discord"):
        raise errors.UsageError(f"no such platform {platform!r}; there are telegram and discord")
    for root in (f"{base_url.rstrip('/')}/chat", f"{base_url.rstrip('/')}/_emulator/chat"):
        try:
            async with session.get(f"{root}/state") as response:
                state = await response.json() if response.status == 200 else None
        except aiohttp.ContentTypeError:
            state = None
        except (aiohttp.ClientError, OSError):
            raise errors.NotReady(f"nothing answers at {base_url}; start it with `{command_line('run')}`") from None
        if isinstance(state, dict) and platform in state:
            return _seat(root, platform, state, person, chat)
    raise errors.NotReady(f"{base_url} answers, but has no chat page: is another program on this port?")


def _seat(root: str, platform: str, state: Mapping[str, Any], person: str, chat: str | None) -> Speaker:
    wanted, people = person.casefold(), state[platform]["people"]
    for somebody in people:
        if wanted in (somebody["name"].casefold(), somebody["username"].casefold(), somebody["id"]):
            own = [place for place in state[platform]["chats"] if somebody["id"] in place["members"]]
            place = _place(own, somebody["name"], chat)
            # A direct chat is the bot's, and so is each command of Discord.
            called = f"@{state['bot']['username']}" if chat is not None and platform == "telegram" else ""
            return Speaker(root, platform, somebody["id"], somebody["name"], place, called)
    names = ", ".join(somebody["name"] for somebody in people[:10])
    raise errors.DoesNotExist(f"there is nobody called {person!r} on {platform}; there are {names}")


def _place(own: Sequence[Mapping[str, Any]], name: str, chat: str | None) -> str:
    """The id of the chat among somebody's *own* that is meant."""
    for place in own:
        is_direct = place["kind"] in ("private", "dm")
        if is_direct if chat is None else chat.casefold().lstrip("#") in (place["title"].casefold(), place["id"]):
            return str(place["id"])
    if chat is None:
        raise errors.DoesNotExist(f"{name} has no chat with the bot yet")
    titles = ", ".join(place["title"] for place in own if place["kind"] not in ("private", "dm"))
    raise errors.DoesNotExist(f"{name} is in no chat called {chat!r}, but in: {titles or 'none'}")


_PRESS = re.compile(r"/press\s+(?:([1-9][0-9]{0,2})\.)?([1-9][0-9]{0,2})\s*")


async def _say(session: aiohttp.ClientSession, speaker: Speaker, text: str) -> None:
    """Say *text*, or press a button."""
    body, is_press = {"text": text}, text.split(maxsplit=1)[:1] == ["/press"]
    if is_press:
        body = _pressed(await _with_buttons(session, speaker), _PRESS.fullmatch(text))
    body |= {"person": speaker.person, "chat": speaker.chat}
    try:
        async with session.post(
            f"{speaker.root}/{speaker.platform}/{'press' if is_press else 'say'}", json=body
        ) as response:
            if response.status != 201:
                said = await response.json()
                raise EmulatorError(f"that was not sent: {said.get('error', response.status)}")
    except (aiohttp.ClientError, OSError):
        raise errors.NotReady("that was not sent: the emulator can't be reached") from None


async def _with_buttons(session: aiohttp.ClientSession, speaker: Speaker) -> list[Mapping[str, Any]]:
    """The messages with something to press, the latest first."""
    try:
        async with session.get(f"{speaker.root}/{speaker.platform}/chats/{speaker.chat}") as response:
            messages = (await response.json()).get("messages", [])
    except (aiohttp.ClientError, OSError):
        raise errors.NotReady("that was not sent: the emulator can't be reached") from None
    return [message for message in reversed(messages) if _is_for(message, speaker) and _keys(message)]


def _pressed(found: Sequence[Mapping[str, Any]], meant: re.Match[str] | None) -> dict[str, str]:
    """The button that is *meant*, of the messages *found*.

    Raises:
        EmulatorError: there is none; says which there are.
    """
    if not found:
        raise errors.DoesNotExist("there is nothing to press: no message here has buttons")
    there = "\n".join(
        f"  {number}.  {shorten(each['text'])}  {_choices(_keys(each))}" for number, each in enumerate(found, 1)
    )
    if meant is None:
        ways = "`/press 2` presses the second of the latest message, `/press 2.1` the first of the one before"
        raise errors.UsageError(f"which button? {ways}:\n{there}")
    back, number = int(meant[1] or 1), int(meant[2])
    keys = _keys(found[back - 1]) if back <= len(found) else []
    if number > len(keys):
        raise errors.DoesNotExist(f"there is no button {back}.{number}, but these, the latest first:\n{there}")
    return {"message": found[back - 1]["id"], "data": keys[number - 1]["callback_data"]}


def _keys(message: Mapping[str, Any]) -> list[dict[str, str]]:
    """The buttons that can be pressed, in the order in which they are read."""
    return [key for row in message.get("keyboard") or () for key in row if key.get("callback_data")]


def _choices(keys: Sequence[Mapping[str, str]]) -> str:
    return "  ".join(f"[{number}] {key['text']}" for number, key in enumerate(keys, 1))


def _is_for(message: Mapping[str, Any], speaker: Speaker) -> bool:
    return message.get("only_for") in (None, speaker.person)


@asynccontextmanager
async def _steps(session: aiohttp.ClientSession, speaker: Speaker) -> AsyncIterator["asyncio.Queue[ChatEvent | None]"]:
    """What happens in this chat from now on; None at the end. It listens before anything is said."""
    queue: asyncio.Queue[ChatEvent | None] = asyncio.Queue()
    try:
        response = await session.get(f"{speaker.root}/events")
    except (aiohttp.ClientError, OSError):
        raise errors.NotReady("the emulator can't be reached") from None
    async with response:
        if response.status != 200:
            raise EmulatorError(f"the emulator answered {response.status} when asked for news")
        await response.content.readline()  # its first line: from here on nothing is missed
        reader = asyncio.create_task(_read(response, speaker, queue))
        try:
            yield queue
        finally:
            reader.cancel()
            with suppress(asyncio.CancelledError):
                await reader


async def _read(response: aiohttp.ClientResponse, speaker: Speaker, queue: "asyncio.Queue[ChatEvent | None]") -> None:
    name, told = "", dict[str, ChatEvent]()
    with suppress(aiohttp.ClientError, OSError):
        async for raw in response.content:
            line = raw.decode().rstrip("\n")
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                news = json.loads(line.removeprefix("data: "))
                step = _step(name, news, speaker) if _is_here(news, speaker) else None
                # News carry a message as it is by now: what changed quickly comes twice, the same both times.
                is_told = name == "message" and told.get(news.get("id")) == step
                if step is not None and not is_told:
                    queue.put_nowait(step)
                    if name == "message":
                        told[news["id"]] = step
    queue.put_nowait(None)


def _is_here(news: Mapping[str, Any], speaker: Speaker) -> bool:
    return news.get("platform") == speaker.platform and news.get("chat") == speaker.chat


def _step(name: str, news: Mapping[str, Any], speaker: Speaker) -> ChatEvent | None:
    """What one piece of news means to the person at the terminal; None when nothing."""
    if name == "typing":
        return ChatEvent("typing")
    if name == "notice" and news.get("person") == speaker.person:
        return ChatEvent("reply", str(news["text"]))
    if name == "message" and "author" in news and _is_for(news, speaker):
        return _message_step(news, speaker)
    if name == "delivery" and news.get("error"):
        if news["state"] == "dropped":
            notice = news.get("notice") or "The platform gave up"
            return ChatEvent("trouble", f"{notice}: {news['error']}.", is_final=True)
        return ChatEvent("trouble", f"The webhook failed, try {news['attempts']} ({news['error']}); it is tried again.")
    return None


def _message_step(message: Mapping[str, Any], speaker: Speaker) -> ChatEvent | None:
    author = message["author"]
    if author["is_bot"]:
        return ChatEvent("typing") if message.get("state") == "thinking" else ChatEvent("reply", _shown(message))
    return None if author["id"] == speaker.person else ChatEvent("said", f"{author['name']}: {message['text']}")


def _shown(message: Mapping[str, Any]) -> str:
    """The text, and the buttons below it with the numbers by which they are pressed."""
    keys = _keys(message)
    return f"{message['text']}\n{_choices(keys)}  (/press 1)" if keys else str(message["text"])


def _write(text: str, stream: TextIO) -> None:
    with suppress(BrokenPipeError):
        stream.write(text)
        stream.flush()
