"""What a person does in the terminal chat: a line is a text, or one of the commands below.

``/press 2`` presses the second button of the latest message with buttons, ``/press 2.1`` the first button of the
second-latest, and ``/press`` lists all buttons. ``/file PATH caption`` sends a file, ``/voice PATH`` a voice message.
``/edit TEXT`` changes the person's last message, ``/delete`` removes it. ``/react 👍`` reacts to the bot's last message
(``/react`` alone takes it back), ``/reply TEXT`` answers it. Every other command is a text for the bot.
"""

import json
import mimetypes
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from emulator.base import errors
from emulator.base.errors import EmulatorError
from emulator.cli.output import shorten

MAX_FILE_BYTES = 20 << 20
_ATTACHMENT = 11  # the type of an option of Discord's commands
_PATH = re.compile(r"""(?:'([^']+)'|"([^"]+)"|([^\s'"]\S*))\s*(.*)""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Speaker:
    """A person in a chat: *root* is the chat page's address, *person* and *chat* are ids on *platform*.

    *mention* must be in a text for the bot; it is empty where the bot reads everything. *thread* is a topic.
    """

    root: str
    platform: str
    person: str
    name: str
    chat: str
    mention: str = ""
    thread: int | None = None


_PRESS = re.compile(r"/press\s+(?:([1-9][0-9]{0,2})\.)?([1-9][0-9]{0,2})\s*")
Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """What a person typed: *rest* is the text behind the command."""

    session: aiohttp.ClientSession
    speaker: Speaker
    whole: str
    rest: str


async def say(session: aiohttp.ClientSession, speaker: Speaker, text: str) -> None:
    """Send *text*, or do what its command says. Raises EmulatorError with the reason of a refusal."""
    word, _, rest = text.partition(" ")
    run = _COMMANDS.get(word, _text)
    what, body = await run(Line(session, speaker, text, rest.strip()))
    place = {"person": speaker.person, "chat": speaker.chat}
    if speaker.thread is not None:
        place["thread"] = str(speaker.thread)
    url = f"{speaker.root}/{speaker.platform}/{what}"
    try:
        async with session.post(url, **_sent({**place, **body})) as response:
            if response.status != 201:
                raise EmulatorError(f"the text was not sent: {await _refusal(response)}")
    except (aiohttp.ClientError, OSError):
        raise errors.NotReady("the text was not sent: the emulator does not answer") from None


async def _refusal(response: aiohttp.ClientResponse) -> str:
    """Why, in the emulator's words where it has some."""
    try:
        return str((await response.json())["error"])
    except (aiohttp.ContentTypeError, ValueError, LookupError, TypeError):
        return f"the emulator answered {response.status}; its log has the reason"


def _sent(body: Body) -> dict[str, Any]:
    """The arguments of a POST: JSON, or a form where there is a file."""
    path: Path | None = body.pop("path", None)
    if path is None:
        return {"json": body}
    form = aiohttp.FormData(quote_fields=False)
    for key, value in body.items():
        form.add_field(key, str(value))
    mime = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    form.add_field("file", path.read_bytes(), filename=path.name, content_type=mime)
    return {"data": form}


async def _text(line: Line) -> tuple[str, Body]:
    return "say", {"text": line.whole}


async def _press(line: Line) -> tuple[str, Body]:
    found = [message for message in await _seen(line) if keys(message)]
    return "press", _pressed(found, _PRESS.fullmatch(line.whole))


async def _file(line: Line) -> tuple[str, Body]:
    return "say", await _upload(line, "")


async def _voice(line: Line) -> tuple[str, Body]:
    return "say", await _upload(line, "voice")


async def _upload(line: Line, kind: str) -> Body:
    """The file behind the command, and the words behind it as its caption; a path with spaces stands in quotes."""
    path, caption = _read_path(line.rest)
    body: Body = {"text": caption, "kinds": json.dumps([kind]), "path": path}
    return {**body, **await _as_command(line, caption or path.name)}


def _read_path(rest: str) -> tuple[Path, str]:
    found = _PATH.fullmatch(rest)
    if found is None:
        raise errors.UsageError("which file? `/file notes.txt`, or `/file 'my notes.txt' read this`")
    path = Path(found[1] or found[2] or found[3]).expanduser()
    if not path.is_file():
        raise errors.DoesNotExist(f"there is no file {path}")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise EmulatorError(f"{path} has more than {MAX_FILE_BYTES >> 20} MiB, which the fake platforms refuse")
    return path, found[4]


async def _as_command(line: Line, prompt: str) -> Body:
    """Where the app has a command that takes a file, that; else a plain message, for Discord's Gateway."""
    for command in (await _chat(line)).get("commands", []):
        kinds = [option.get("type") for option in command.get("options") or ()]
        if command.get("name") == "ask" and _ATTACHMENT in kinds:
            return {"command": "ask", "options": json.dumps({"prompt": prompt})}
    return {"plain": "true"}


async def _edit(line: Line) -> tuple[str, Body]:
    return "edit", {"message": await _last(line, is_bot=False), "text": line.rest}


async def _delete(line: Line) -> tuple[str, Body]:
    return "delete", {"message": await _last(line, is_bot=False)}


async def _react(line: Line) -> tuple[str, Body]:
    found = await _find_last(line, is_bot=True)
    mine = [emoji for emoji, ids in found["reacted"].items() if line.speaker.person in ids]
    if not line.rest and not mine:
        raise errors.UsageError("which reaction? `/react 👍`")
    return "react", {"message": found["id"], "emoji": line.rest or mine[-1], "remove": not line.rest}


async def _reply(line: Line) -> tuple[str, Body]:
    return "say", {"text": line.rest, "reply_to": await _last(line, is_bot=True), "plain": True}


_COMMANDS: Mapping[str, Callable[[Line], Awaitable[tuple[str, Body]]]] = {
    "/press": _press,
    "/file": _file,
    "/voice": _voice,
    "/edit": _edit,
    "/delete": _delete,
    "/react": _react,
    "/reply": _reply,
}

_SILENT = frozenset({"/edit", "/delete", "/react"})  # what a bot may pass over without a word


def expects_reply(text: str) -> bool:
    """Whether the bot owes a reply to this line."""
    return text.partition(" ")[0] not in _SILENT


async def _last(line: Line, *, is_bot: bool) -> str:
    return str((await _find_last(line, is_bot=is_bot))["id"])


async def _find_last(line: Line, *, is_bot: bool) -> Mapping[str, Any]:
    """The last message of the bot, or of the person. Raises DoesNotExist."""
    for message in await _seen(line):
        author = message["author"]
        if author["is_bot"] if is_bot else author["id"] == line.speaker.person:
            return message
    raise errors.DoesNotExist("the bot has said nothing here" if is_bot else "you have said nothing here")


async def _seen(line: Line) -> list[Mapping[str, Any]]:
    """The messages that the person sees, the latest first."""
    messages = (await _chat(line)).get("messages", [])
    return [message for message in reversed(messages) if is_for(message, line.speaker)]


async def _chat(line: Line) -> Mapping[str, Any]:
    """The conversation, as the chat page gets it."""
    speaker = line.speaker
    try:
        async with line.session.get(f"{speaker.root}/{speaker.platform}/chats/{speaker.chat}") as response:
            found: Mapping[str, Any] = await response.json()
    except (aiohttp.ClientError, OSError):
        raise errors.NotReady("the text was not sent: the emulator does not answer") from None
    return found


def _pressed(found: Sequence[Mapping[str, Any]], chosen: re.Match[str] | None) -> dict[str, str]:
    """The button that *chosen* names, among the messages *found*.

    Raises:
        EmulatorError: there is no such button; lists the buttons.
    """
    if not found:
        raise errors.DoesNotExist("there is no button to press: no message here has one")
    there = "\n".join(
        f"{number}.  {shorten(each['text'])}  {choices(keys(each))}" for number, each in enumerate(found, 1)
    )
    if chosen is None:
        ways = "`/press 2` presses the second of the latest message, `/press 2.1` the first of the message before"
        raise errors.UsageError(f"which button? {ways}:\n{there}")
    back, number = int(chosen[1] or 1), int(chosen[2])
    there_are = keys(found[back - 1]) if back <= len(found) else []
    if number > len(there_are):
        raise errors.DoesNotExist(f"there is no button {back}.{number}. The buttons, the latest first:\n{there}")
    return {"message": found[back - 1]["id"], "data": there_are[number - 1]["callback_data"]}


def keys(message: Mapping[str, Any]) -> list[dict[str, str]]:
    """The buttons that can be pressed, in reading order."""
    return [key for row in message.get("keyboard") or () for key in row if key.get("callback_data")]


def choices(keys: Sequence[Mapping[str, str]]) -> str:
    return "  ".join(f"[{number}] {key['text']}" for number, key in enumerate(keys, 1))


def is_for(message: Mapping[str, Any], speaker: Speaker) -> bool:
    return message.get("only_for") in (None, speaker.person)
