"""What an import will do, what it can't, and why: built by the readers of each program, and sent by the command."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from emulator.moving.source import FoundFile, SourceFolder
from shared.agents import own_files
from shared.db.roster.destinations import slug

_MOST_TEXT = 200_000  # characters of a file, as REST takes it
_MOST_FILES = 500  # of one agent: more is a project, and no memory
_LONGEST_PATH = 500
_RESERVED = ("operator", "user")
CHANNELS = ("telegram", "discord")

TOKENS = {
    "telegram": (
        "TELEGRAM_BOT_TOKEN",
        "Telegram gives a bot's messages to one program alone: where Postroom sets its "
        "webhook, the other program's polling ends with error 409, and back",
    ),
    "discord": ("DISCORD_BOT_TOKEN", "Discord lets two programs connect as one bot, and both answer"),
}


class LeftOut(NamedTuple):
    """What does not come along as it was: the reason, and what to do by hand."""

    what: str
    why: str
    do: str = ""


class PlannedFile(NamedTuple):
    """A text file for an agent's folder."""

    agent: str
    path: str
    text: str


@dataclass(slots=True)
class MovePlan:
    """*body*: for ``POST /api/imports``. *prefix*: of each id and label. *bots*: channels whose bot the other has."""

    source: str
    version: str
    prefix: str = ""
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    teams: dict[str, dict[str, Any]] = field(default_factory=dict)
    chats: list[dict[str, Any]] = field(default_factory=list)
    wirings: list[dict[str, Any]] = field(default_factory=list)
    users: list[dict[str, Any]] = field(default_factory=list)
    destinations: list[dict[str, Any]] = field(default_factory=list)
    schedules: list[dict[str, Any]] = field(default_factory=list)
    heartbeats: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: list[PlannedFile] = field(default_factory=list)
    left: list[LeftOut] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    bots: list[str] = field(default_factory=list)
    same_agents: bool = False

    @property
    def body(self) -> dict[str, Any]:
        """The plan as REST takes it."""
        parts = ("agents", "teams", "chats", "wirings", "users", "destinations", "schedules", "heartbeats")
        named = {name: getattr(self, name) for name in parts}
        return {"source": self.source, "sameAgents": self.same_agents, **named}

    def leave(self, what: str, why: str, do: str = "") -> None:
        """Tell that something does not come along as it was."""
        self.left.append(LeftOut(what, why, do))

    def leave_counted(self, number: int, what: str, why: str, do: str = "") -> None:
        """The same of so many things, where there are any."""
        if number:
            self.leave(f"{what}: {number}", why, do)

    def fit_id(self, wanted: str, *, taken: Collection[str] = ()) -> str:
        """An id that Postroom takes, made of theirs; it tells where that is another."""
        whole = self.prefix + wanted
        stem = whole if re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", whole) else (slug(whole) or "agent")
        number, found = 1, stem[:60]
        while found in taken or found in self.agents or found in _RESERVED:
            number += 1
            found = f"{stem[:56]}-{number}"
        if found != wanted:
            self.leave(f"the id {wanted!r}", f"it is {found!r} here")
        return found

    def copy_file(self, source: SourceFolder, file: FoundFile, folder: str, agent: str) -> None:
        """Plan a file of *folder* for the agent's, or tell why it can't come along."""
        where = f"{folder}/{file.path}"
        if file.problem:
            self.leave(where, file.problem, f"copy what you want into the folder of {agent}")
            return
        is_large = file.size > 4 * _MOST_TEXT  # bytes, of which a character has four at most
        self.add_file(agent, file.path, None if is_large else source.text(where), where, is_large=is_large)

    def add_file(self, agent: str, path: str, text: str | None, where: str, *, is_large: bool = False) -> None:
        """Plan a file of an agent, or tell why it can't come along; *where*: what to copy by hand."""
        do = f"copy it into the folder of {agent}"
        if any(part.startswith(".") for part in path.split("/")):
            self.leave(where, "it is hidden, and only visible files are sent to an agent's folder", do)
        elif own_files.is_read_by_programs(path):
            self.leave(where, "programs read it by themselves, so no import writes it", "add it to the instructions")
        elif is_large or (text is not None and len(text) > _MOST_TEXT):
            self.leave(where, f"it has more than {_MOST_TEXT:,} characters", do)
        elif text is None or not path.isprintable() or len(path) > _LONGEST_PATH:
            self.leave(where, "it, or its name, is no text", do)
        elif sum(each.agent == agent for each in self.files) >= _MOST_FILES:
            self.leave(where, f"agent {agent} has {_MOST_FILES} files already", do)
        else:
            self.files.append(PlannedFile(agent, path, text))

    def add_chat(self, channel: str, platform_id: str, **more: Any) -> dict[str, str]:
        """The address of a chat, which is in the plan from now on; one that is there stays as it is."""
        address = {"channel": channel, "platformId": platform_id}
        if not any(address.items() <= each.items() for each in self.chats):
            self.chats.append({**address, **more})
        return address

    def add_wiring(self, address: dict[str, str], agent: str, **settings: Any) -> None:
        """Let the agent answer there; one wiring of a pair is enough."""
        wanted = {**address, "agent": agent}
        if not any(wanted.items() <= each.items() for each in self.wirings):
            self.wirings.append({**wanted, **settings})

    def add_user(self, channel: str, sender_id: str, name: str = "") -> dict[str, Any]:
        """The person in the plan, new or not."""
        for each in self.users:
            if (each["channel"], each["senderId"]) == (channel, sender_id):
                return each
        made: dict[str, Any] = {
            "channel": channel,
            "senderId": sender_id,
            "name": name[:200],
            "roles": [],
            "memberOf": [],
        }
        self.users.append(made)
        return made

    def may_send(self, agent: str, address: dict[str, str], name: str) -> None:
        """Let the agent send to the chat, unless it answers there and so may already."""
        wired = {**address, "agent": agent}
        if any(wired.items() <= each.items() for each in self.wirings):
            return
        if not any(each["agent"] == agent and each.get("chat") == address for each in self.destinations):
            self.destinations.append({"agent": agent, "name": name, "chat": address})

    def add_schedule(self, label: str, agent: str, text: str, **more: Any) -> None:
        """A schedule, with a label that no other has."""
        taken = {each["label"] for each in self.schedules}
        stem = (self.prefix + label)[:190]
        number, found = 1, stem
        while found in taken:
            number += 1
            found = f"{stem}-{number}"
        self.schedules.append({"label": found, "agentId": agent, "message": text, **more})


def destination_name(text: str, fallback: str) -> str:
    """A name of a destination that Postroom takes."""
    name = slug(text) or fallback
    return f"to-{name}" if name == "chat" or re.fullmatch("chat-[0-9]+", name) else name
