"""The commands of the echo agent that call Postroom's tools, so that everything can be shown without a model::

    !post text                says text at once, while the turn runs
    !ask question | a | b     asks, with buttons where the channel has them
    !card title | text        sends a card
    !react 👍                 reacts to this message
    !edit 7 text              changes message 7
    !file                     sends back the first file of this message
    !file report.txt          sends a file of the outbox
    !voice text               says text as a voice message
    !remind 10m text          says text in ten minutes
    !tasks                    lists the tasks
    !update task text         changes what a task says
    !pause task               pauses a task; also !resume and !cancel
    !thread                   reads this conversation
    !skill name               reads a skill
    !search words             searches what was said before
    !remember text            remembers it for all conversations with people whom it knows; !here: for this one
    !memory                   shows what it remembers here
    !unlearn line             forgets a line
    !destinations             lists to whom the agent may write
    !send agent text          writes to another agent
    !inbox                    takes the messages out of the mailbox
    !create name              asks an approver for another agent
    !register agent chat      asks an approver to let an agent answer in a chat
    !tools                    lists the tools
    !tool name {"key": 1}     calls any tool, with its arguments as JSON

Echo does what anybody writes. So without ``{"tools": "all"}`` in its config it calls only tools that stay in the
conversation: nobody can write to another chat through it, or see who else is there.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from shared.agents import briefing, own_files, session_files
from shared.agents.access import Toolbox, ToolSpec
from shared.agents.base import Turn, TurnMessage
from shared.core.time import durations

_HERE = frozenset({
    "send_message", "send_card", "edit_message", "send_file", "add_reaction", "ask_user_question", "schedule_task",
    "list_tasks", "update_task", "pause_task", "resume_task", "cancel_task", "read_thread",
    "read_skill", "send_voice", "send_poll", "send_sticker", "create_topic", "remember", "forget_memory",
    "search_history",
})  # fmt: skip
_NOT_HERE = 'Echo does that only with {"tools": "all"} in its config, because it would do it for anybody.'
_LARGEST_BYTES = 20 * 1024 * 1024
_NO_TOOLS = "There are no tools in this turn."


class Wanted(NamedTuple):
    """A call that a command asks for."""

    tool: str
    arguments: Mapping[str, Any]


class NotUnderstood(Exception):
    """The command lacks something; the message says what to write."""


def _text(tool: str, name: str) -> Callable[[str, TurnMessage], Wanted]:
    def parse(rest: str, _: TurnMessage) -> Wanted:
        return Wanted(tool, {name: rest})

    return parse


def _two(tool: str, first: str, second: str) -> Callable[[str, TurnMessage], Wanted]:
    def parse(rest: str, _: TurnMessage) -> Wanted:
        word, _blank, text = rest.partition(" ")
        if not text.strip():
            raise NotUnderstood(f"Write two things after the command: {first} and {second}.")
        return Wanted(tool, {first: int(word) if word.isdecimal() else word, second: text.strip()})

    return parse


def _remember(where: str) -> Callable[[str, TurnMessage], Wanted]:
    return lambda rest, _: Wanted("remember", {"text": rest, "where": where})


def _nothing(tool: str) -> Callable[[str, TurnMessage], Wanted]:
    return lambda _rest, _message: Wanted(tool, {})


def _ask(rest: str, _: TurnMessage) -> Wanted:
    question, *options = (part.strip() for part in rest.split("|"))
    return Wanted("ask_user_question", {"question": question, "options": list(filter(None, options))})


def _card(rest: str, _: TurnMessage) -> Wanted:
    title, _bar, text = rest.partition("|")
    return Wanted("send_card", {"title": title.strip(), "text": text.strip()})


def _react(rest: str, message: TurnMessage) -> Wanted:
    return Wanted("add_reaction", {"message": message.message_id, "emoji": rest or "👍"})


def _remind(rest: str, message: TurnMessage) -> Wanted:
    word, _, text = rest.partition(" ")
    try:
        wait = timedelta(milliseconds=durations.parse_ms(word))
    except ValueError as error:
        raise NotUnderstood(f"Write when and what, such as: !remind 10m tea. {error}") from None
    at = datetime.fromtimestamp(message.at_ms / 1000, UTC) + wait
    prompt = f"!say {text.strip() or 'You asked me to remind you.'}"
    return Wanted("schedule_task", {"prompt": prompt, "run_at": at.replace(tzinfo=None).isoformat(), "timezone": "UTC"})


def _tool(rest: str, _: TurnMessage) -> Wanted:
    name, _blank, text = rest.partition(" ")
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise NotUnderstood(f"The arguments are no JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise NotUnderstood('The arguments are a JSON object, such as: !tool send_message {"text": "hello"}')
    return Wanted(name, arguments)


_COMMANDS: Mapping[str, Callable[[str, TurnMessage], Wanted]] = {
    "!post": _text("send_message", "text"),
    "!ask": _ask,
    "!card": _card,
    "!react": _react,
    "!edit": _two("edit_message", "message", "text"),
    "!file": _text("send_file", "path"),
    "!voice": _text("send_voice", "text"),
    "!remind": _remind,
    "!tasks": _nothing("list_tasks"),
    "!update": _two("update_task", "task", "prompt"),
    "!pause": _text("pause_task", "task"),
    "!resume": _text("resume_task", "task"),
    "!cancel": _text("cancel_task", "task"),
    "!thread": _nothing("read_thread"),
    "!skill": _text("read_skill", "name"),
    "!search": _text("search_history", "words"),
    "!remember": _remember("everywhere"),
    "!here": _remember("here"),
    "!unlearn": _text("forget_memory", "line"),
    "!destinations": _nothing("list_destinations"),
    "!send": _two("send_to_agent", "agent", "text"),
    "!inbox": _nothing("consume_messages"),
    "!create": _text("create_agent", "name"),
    "!register": _two("register_agent_group", "agent", "chat"),
    "!tool": _tool,
}
NAMES = frozenset({*_COMMANDS, "!tools", "!memory"})


async def obey(command: str, rest: str, message: TurnMessage, turn: Turn, number: int) -> str:
    """Do what a command of ``NAMES`` says; the words for the person.

    Args:
        number: of the call in its turn, from 1.
    """
    tools = turn.tools
    if tools is None:
        return _NO_TOOLS
    if command == "!memory":
        return briefing.memory(turn).strip() or "I remember nothing here."
    if command == "!tools":
        return _listed(tools.specs())
    try:
        wanted = _COMMANDS[command](rest, message)
    except NotUnderstood as problem:
        return str(problem)
    if not may_call(wanted, turn.config):
        return _NOT_HERE
    if command == "!file" and not rest.strip():
        name = await asyncio.to_thread(_put_back, turn, message)
        if name is None:
            return "Attach a file to !file, or write which file of the outbox to send."
        wanted = Wanted(wanted.tool, {"path": name})
    return await _call(tools, wanted, number)


def _put_back(turn: Turn, message: TurnMessage) -> str | None:
    """Put the first file of the message into the outbox; its name there, or None where there is none."""
    found = next((each for each in turn.attachments if each.message_id == message.message_id), None)
    content = None if found is None else own_files.read_path(turn.folder, found.path, most_bytes=_LARGEST_BYTES)
    if found is None or content is None:
        return None
    name = f"{message.message_id}_{found.name}"
    with (
        session_files.open_folder(turn.folder, turn.session, session_files.OUTBOX) as opened,
        contextlib.suppress(OSError),
    ):
        session_files.write_new(opened, name, content)
    return name


async def _call(tools: Toolbox, wanted: Wanted, number: int) -> str:
    answer = await tools.call(wanted.tool, wanted.arguments, call_id=f"echo-{number}")
    return f"{wanted.tool} failed: {answer.text}" if answer.is_error else answer.text


def may_call(wanted: Wanted, config: Mapping[str, Any]) -> bool:
    """Whether echo may call it for anybody who asks. Pure."""
    if config.get("tools") == "all":
        return True
    return wanted.tool in _HERE and wanted.arguments.get("to") is None


def _listed(specs: Sequence[ToolSpec]) -> str:
    return "\n".join(f"- `{spec.name}`: {spec.description.splitlines()[0]}" for spec in specs)
