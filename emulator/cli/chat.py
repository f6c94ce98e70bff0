"""The terminal chat: lines go to the agent through a fake platform, and replies are printed as they arrive.

:mod:`.chat_commands` has what a person can do besides writing: press, send files, edit, delete, react, reply.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import aiohttp

from emulator.base import errors
from emulator.base.errors import EmulatorError, ExitCode
from emulator.base.fakes import PLATFORMS, unknown
from emulator.base.hints import command_line
from emulator.base.terminal import PROSE, escape, escape_json, indent_more
from emulator.cli.chat_commands import Speaker, expects_reply, say
from emulator.cli.chat_events import ChatEvent, Explain, chat_events, why_silent

TIMED_OUT = ExitCode.TRY_AGAIN
QUIET_S = 0.7  # after this long without another reply, --once counts as answered
LISTEN_S = 2.0  # how long --once listens after what needs no reply, such as a reaction


class _NoChatPage(errors.NotReady):
    """Something answers at the address, but it has no chat page."""


def run_chat(
    platform: str,
    *,
    base_url: str,
    person: str,
    once: str | None,
    timeout_s: float,
    chat: str | None = None,
    topic: str | None = None,
    state: Path | None = None,
    headers: Mapping[str, str] | None = None,
    as_json: bool = False,
) -> int:
    """Talk to the agent as *person* (a name or an id) until Ctrl-D; with *once*, send that and print the replies.

    Args:
        platform: or an account such as ``telegram.sales``, with the address of the gateway.
        chat: the title or the id of a group; None means the person's direct chat with the bot.
        topic: the name of a topic in that group; None means all, and to write in none.
        state: the emulator's folder, for the commands in hints.
        headers: of each request.
        as_json: each event is printed as a line of JSON.

    Returns:
        0; 75 when *once* needs a reply and got none within *timeout_s*; else the exit code of the failure, which
        is printed.
    """
    try:
        return asyncio.run(
            _chat(
                platform,
                chat,
                topic,
                base_url=base_url,
                person=person,
                once=once,
                timeout_s=timeout_s,
                state=state,
                headers=headers,
                as_json=as_json,
            )
        )
    except EmulatorError as problem:
        _write(f"error: {indent_more(str(problem), 2)}\n", sys.stderr)
        return problem.exit_code
    except KeyboardInterrupt:
        return 130


async def _chat(
    platform: str,
    chat: str | None,
    topic: str | None,
    *,
    base_url: str,
    person: str,
    once: str | None,
    timeout_s: float,
    state: Path | None,
    headers: Mapping[str, str] | None,
    as_json: bool,
) -> int:
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
    async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:
        kind, of_account, _ = platform.partition(".")
        root = f"{base_url}/_emulator/accounts/{platform}" if of_account else base_url
        find = _find_speaker(session, kind, base_url=root, person=person, chat=chat, topic=topic)
        speaker = await _of_account(find, platform, state) if of_account else await find
        explain = partial(why_silent, speaker, platform, state)
        async with chat_events(session, speaker) as steps:
            if once is None:
                last = await _interactive(session, speaker, steps, explain, as_json=as_json)
            else:
                await say(session, speaker, once)
                last = once
            if last is None:
                return 0
            if not expects_reply(last):
                return await _replies(steps, min(timeout_s, LISTEN_S), None, explain, as_json=as_json)
            advice = _advice(speaker, last, platform, state)
            return await _replies(steps, timeout_s, advice, explain, as_json=as_json)


def _advice(speaker: Speaker, text: str, account: str, state: Path | None) -> str:
    """Where to look if *text* gets no reply."""
    is_meant = speaker.mention.casefold() in text.casefold()
    hint = "" if is_meant else f" Here the bot answers only if you mention it, {speaker.mention}, or reply to it."
    why = command_line(f"why --platform-id {speaker.chat} --channel {account}", state)
    return f"{hint} `{why}` shows what became of the messages of this chat, and why."


async def _replies(
    steps: "asyncio.Queue[ChatEvent | None]",
    timeout_s: float,
    advice: str | None,
    explain: Explain,
    *,
    as_json: bool = False,
) -> int:
    """Print replies until no more come for a while; returns 0, or 75 with a sentence if none came.

    Without *advice* no reply is needed: then 75 means that the platform gave up.
    """
    trouble, replied, is_final = "", False, False
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout_s
    while True:
        wait_s = min(QUIET_S, end - loop.time()) if replied else end - loop.time()
        try:
            step = await _next(steps, max(0.0, wait_s), explain)
        except TimeoutError:
            break
        _write_step(step, as_json=as_json)
        if step.kind == "reply":
            replied = True
        elif step.kind == "trouble":
            trouble, is_final = f" {step.text}", step.is_final
            if is_final:
                break
    if replied or (advice is None and not trouble):
        return 0
    how_long = "" if is_final else f" within {timeout_s:g} s"
    why = f"No reply{how_long}.{trouble}{advice or ''}"
    if not as_json:
        _write(f"{why}\n", sys.stderr)
    elif not is_final:
        _write_line(ChatEvent("trouble", why))
    return TIMED_OUT


async def _next(steps: "asyncio.Queue[ChatEvent | None]", limit_s: float, explain: Explain) -> ChatEvent:
    """The next event; the delivery of a message of which nothing came is trouble. Raises TimeoutError, NotReady."""
    step = await asyncio.wait_for(steps.get(), limit_s)
    if step is None:
        raise errors.NotReady("the emulator stopped during the chat")
    silence = await explain(step.text) if step.kind == "delivered" else None
    return step if silence is None else ChatEvent("trouble", silence, is_final=True)


def _write_step(step: ChatEvent, *, as_json: bool) -> None:
    if as_json:
        _write_line(step)
    elif step.kind == "reply":
        _write(f"{step.text}\n", sys.stdout)


def _write_line(step: ChatEvent) -> None:
    """The event as a line of JSON."""
    _write(escape_json(json.dumps({"event": step.kind, "text": step.text}, ensure_ascii=False)) + "\n", sys.stdout)


async def _interactive(
    session: aiohttp.ClientSession,
    speaker: Speaker,
    steps: "asyncio.Queue[ChatEvent | None]",
    explain: Explain,
    *,
    as_json: bool = False,
) -> str | None:
    """Send lines and print replies until the input ends.

    Returns:
        The last line, if the caller must wait for its reply, because the input is no terminal.
    """
    is_terminal = sys.stdin.isatty() and not as_json
    if is_terminal:
        mention = f" Mention the bot, {speaker.mention}, to get a reply." if speaker.mention else ""
        _write(f"You are {speaker.name} on {speaker.platform}.{mention} Enter sends, Ctrl-D ends.\n", sys.stdout)
    screen = ChatScreen(f"{speaker.name}> " if is_terminal else "", explain, as_json=as_json)
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
        return screen.last_text
    return None


class ChatScreen:
    """The terminal: the prompt, and the replies above it."""

    def __init__(self, prompt: str, explain: Explain, *, as_json: bool = False) -> None:
        self.prompt = prompt
        self._explain = explain
        self._as_json = as_json
        self.is_waiting = False
        self.last_text = ""
        self._erase = "\r\033[K" if prompt else ""

    def _show(self, text: str) -> None:
        _write(f"{text}\n{self.prompt}", sys.stdout, control=self._erase)

    async def _tell_silence(self, message: str) -> None:
        """One dim line below a message of which nothing came."""
        silence = await self._explain(message)
        self.is_waiting = self.is_waiting and silence is None
        if silence is not None:
            self._show_dim(silence)

    def _show_dim(self, text: str) -> None:
        if self._as_json:
            _write_line(ChatEvent("trouble", text))
            return
        dim, bright = ("\033[2m", "\033[0m") if self.prompt else ("", "")
        _write(f"  {indent_more(text, 2)}\n", sys.stdout, control=self._erase + dim)
        _write(self.prompt, sys.stdout, control=bright)

    def show_prompt(self) -> None:
        _write(self.prompt, sys.stdout)

    async def say(self, session: aiohttp.ClientSession, speaker: Speaker, text: str) -> None:
        try:
            await say(session, speaker, text)
            if expects_reply(text):
                self.is_waiting, self.last_text = True, text
        except EmulatorError as problem:
            _write(f"  ! {indent_more(str(problem), 2)}\n", sys.stdout)

    async def follow(self, steps: "asyncio.Queue[ChatEvent | None]") -> None:
        """Print each event over the prompt, and draw the prompt again."""
        while (step := await steps.get()) is not None:
            if step.kind == "delivered":
                await self._tell_silence(step.text)
            elif self._as_json:
                self.is_waiting = self.is_waiting and step.kind != "reply"
                _write_line(step)
            elif step.kind == "reply":
                self.is_waiting = False
                self._show(f"  {indent_more(step.text, 2)}")
            elif step.kind in ("said", "trouble"):
                mark = "! " if step.kind == "trouble" else ""
                self._show(f"  {mark}{indent_more(step.text, 4)}")
        self.is_waiting = False
        _write("The emulator has stopped.\n", sys.stderr, control=self._erase)


class _InputLines:
    """Standard input, line by line, without a thread, which a blocked read would keep alive."""

    def __init__(self) -> None:
        self._descriptor = sys.stdin.fileno()
        self._buffer = b""

    async def next(self, printer: "asyncio.Task[None]") -> str | None:
        """The next line; None at the end, or when *printer* is done because the emulator stopped."""
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
        except (OSError, ValueError):  # a plain file: epoll refuses it, and reads never block
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


async def _of_account(find: Awaitable[Speaker], account: str, state: Path | None) -> Speaker:
    """The speaker of *find*. Raises DoesNotExist where the fake platforms have no bot of *account*."""
    try:
        return await find
    except _NoChatPage:
        platform, _, word = account.partition(".")
        known, add = command_line("accounts list", state), command_line(f"accounts add {platform} {word}", state)
        raise errors.DoesNotExist(
            f"no bot of the fake platforms has the account {account!r}; "
            f"`{known}` lists the accounts, `{add}` adds this one"
        ) from None


async def _find_speaker(
    session: aiohttp.ClientSession, platform: str, *, base_url: str, person: str, chat: str | None, topic: str | None
) -> Speaker:
    """Find the chat page (directly or behind the gateway) and *person*'s chat with the bot."""
    if platform not in PLATFORMS:
        raise errors.UsageError(unknown(platform))
    for root in (f"{base_url.rstrip('/')}/chat", f"{base_url.rstrip('/')}/_emulator/chat"):
        try:
            async with session.get(f"{root}/state") as response:
                state = await response.json() if response.status == 200 else None
        except aiohttp.ContentTypeError:
            state = None
        except (aiohttp.ClientError, OSError):
            raise errors.NotReady(f"nothing answers at {base_url}; start it with `{command_line('run')}`") from None
        if isinstance(state, dict) and platform in state:
            return _seat(root, platform, state, person, chat, topic)
    raise _NoChatPage(f"{base_url} has no chat page: does another program use this port?")


def _seat(
    root: str, platform: str, state: Mapping[str, Any], person: str, chat: str | None, topic: str | None
) -> Speaker:
    wanted, people = person.casefold(), state[platform]["people"]
    for each in people:
        if wanted in (each["name"].casefold(), each["username"].casefold(), each["id"]):
            own = [place for place in state[platform]["chats"] if each["id"] in place["members"]]
            place = _place(own, each["name"], chat)
            mention = state[platform]["mention"] if chat is not None else ""  # in a direct chat the bot gets everything
            thread = None if topic is None else _topic(place, topic)
            return Speaker(root, platform, each["id"], each["name"], str(place["id"]), mention, thread)
    names = ", ".join(each["name"] for each in people[:10])
    raise errors.DoesNotExist(f"there is no person {person!r} on {platform}; choose one of {names}")


def _topic(place: Mapping[str, Any], topic: str) -> int:
    """The number of the topic called *topic*. Raises DoesNotExist, which lists the topics."""
    for each in place["topics"]:
        if topic.casefold() in (each["name"].casefold(), str(each["id"])):
            return int(each["id"])
    names = ", ".join(each["name"] for each in place["topics"])
    raise errors.DoesNotExist(f"there is no topic {topic!r} in {place['title']}; its topics: {names or 'none'}")


def _place(own: Sequence[Mapping[str, Any]], name: str, chat: str | None) -> Mapping[str, Any]:
    """The chat called *chat* among a person's *own* chats; without *chat*, the direct chat."""
    for place in own:
        is_direct = place["kind"] in ("private", "dm")
        if is_direct if chat is None else chat.casefold().lstrip("#") in (place["title"].casefold(), place["id"]):
            return place
    if chat is None:
        raise errors.DoesNotExist(f"{name} has no chat with the bot yet")
    titles = ", ".join(place["title"] for place in own if place["kind"] not in ("private", "dm"))
    raise errors.DoesNotExist(f"{name} is in no chat {chat!r}; chats with {name}: {titles or 'none'}")


def _write(text: str, stream: TextIO, *, control: str = "") -> None:
    """Write *text*, of which people and agents may have written any part; *control* goes before it, to the terminal."""
    with suppress(BrokenPipeError):
        stream.write(control + escape(text, keep=PROSE))
        stream.flush()
