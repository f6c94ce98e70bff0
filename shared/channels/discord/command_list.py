"""The commands of our app at Discord: which we want, which are registered, and what differs.

One call replaces all commands of a scope (global, or one server). So commands of other tools are sent along as they
are, and one of ours is changed only where it differs.

Source: https://docs.discord.com/developers/interactions/application-commands#bulk-overwrite-global-application-commands.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from shared.channels import sanitize
from shared.channels.discord.api import DiscordApi
from shared.channels.discord.objects import dicts
from shared.core.errors import PermanentError, WrongState
from shared.runtime.http_client import Client

Definition = Mapping[str, Any]

_SLASH, _USER, _MESSAGE = 1, 2, 3
_STRING, _FILE = 3, 11
_EVERYWHERE = {"contexts": [0, 1, 2], "integration_types": [0, 1]}  # servers, direct chats and others' direct chats
_OF_DISCORD = ("id", "application_id", "guild_id", "version")  # in answers, and in no request


def _option(name: str, type_: int, description: str, **more: bool) -> dict[str, Any]:
    return {"name": name, "type": type_, "description": description, **more}


OURS: tuple[Definition, ...] = (
    {
        "name": "ask",
        "type": _SLASH,
        "description": "Ask the agent",
        "options": [
            _option("prompt", _STRING, "Your question", required=True),
            _option("file", _FILE, "A file for the agent"),
            _option("agent", _STRING, "The agent that you ask, where there are several", autocomplete=True),
        ],
    },
    {"name": "stop", "type": _SLASH, "description": "Stop the answer that is being written"},
    {"name": "clear", "type": _SLASH, "description": "Forget what was said here, and start afresh"},
    {"name": "forget", "type": _SLASH, "description": "Delete what the agent remembers from your messages"},
    {
        "name": "why",
        "type": _SLASH,
        "description": "Why the last message here has no answer (admins only)",
        "options": [_option("message", _STRING, "The id of another message")],
    },
    {
        "name": "start",
        "type": _SLASH,
        "description": "Use a code from the operator of this bot",
        "options": [_option("code", _STRING, "The code", required=True)],
    },
    {"name": "Ask about this message", "type": _MESSAGE},
    {"name": "Ask about this person", "type": _USER},
)


class CommandDifference(NamedTuple):
    """What a registration would change; each command by its ``label``.

    Attributes:
        others: commands of other tools, which stay.
    """

    new: tuple[str, ...]
    changed: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def is_none(self) -> bool:
        return not self.new and not self.changed


def wanted(guild_id: str | None) -> list[dict[str, Any]]:
    """Our commands as they are registered globally, or in one server, where they are everywhere by themselves."""
    return [{**each, **({} if guild_id else _EVERYWHERE)} for each in OURS]


def difference(registered: Iterable[Definition], ours: Iterable[Definition]) -> CommandDifference:
    """What differs. Pure."""
    there = {_key(each): each for each in registered}
    here = {_key(each): each for each in ours}
    changed = [key for key, each in here.items() if key in there and _essence(there[key]) != _essence(each)]
    return CommandDifference(
        tuple(label(each) for key, each in here.items() if key not in there),
        tuple(label(here[key]) for key in changed),
        tuple(label(each) for key, each in there.items() if key not in here),
    )


def merged(registered: Iterable[Definition], ours: Sequence[Definition]) -> list[Definition]:
    """The commands to register: ours, and those of other tools as they are. Pure."""
    here = {_key(each) for each in ours}
    others = [each for each in registered if _key(each) not in here]
    return [*ours, *({name: each[name] for name in each if name not in _OF_DISCORD} for each in others)]


def label(command: Definition) -> str:
    """The command as a person sees it."""
    name = sanitize.name(str(command.get("name")))
    return {_USER: f"{name} (on a person)", _MESSAGE: f"{name} (on a message)"}.get(_type(command), f"/{name}")


def _type(command: Definition) -> int:
    found = command.get("type", _SLASH)
    return found if isinstance(found, int) else _SLASH


def _key(command: Definition) -> tuple[str, int]:
    return str(command.get("name")), _type(command)


def _essence(command: Definition) -> dict[str, Any]:
    """What people see of the command; Discord adds defaults and numbers of its own."""
    options = dicts(command.get("options"))
    return {
        "description": command.get("description") or "",
        "options": [_essence(each) | _flags(each) for each in options],
        **{name: sorted(command.get(name) or ()) for name in _EVERYWHERE},
    }


def _flags(option: Definition) -> dict[str, Any]:
    flags = {name: bool(option.get(name)) for name in ("required", "autocomplete")}
    return {"name": option.get("name"), "type": option.get("type"), **flags}


class CommandRegistration(NamedTuple):
    """What ``register`` found and did."""

    difference: CommandDifference
    is_changed: bool


async def register(
    api: DiscordApi, client: Client, *, guild_id: str | None = None, overwrite: bool = False
) -> CommandRegistration:
    """Register our commands where they differ, with one call; without a difference nothing is called.

    Args:
        guild_id: the server to register them in; None: everywhere.
        overwrite: also where a registered command has one of our names and another definition.

    Raises:
        WrongState: a registered command differs, and *overwrite* is False. Nothing was changed.
        PostroomError: Discord refuses it, or can't be asked.
    """
    await check_application(api, client)
    place = f"/guilds/{guild_id}" if guild_id else ""
    url = f"{api.base}/applications/{api.application_id}{place}/commands"
    registered = await api.do_list(client, "GET", url)
    ours = wanted(guild_id)
    found = difference(registered, ours)
    if found.is_none:
        return CommandRegistration(found, is_changed=False)
    if found.changed and not overwrite:
        raise WrongState(
            f"registered with another definition, perhaps by another tool: {', '.join(found.changed)}. "
            "Nothing was changed"
        )
    await api.do_list(client, "PUT", url, merged(registered, ours))
    return CommandRegistration(found, is_changed=True)


async def check_application(api: DiscordApi, client: Client) -> str | None:
    """The address that Discord sends interactions to, or None.

    Raises:
        PermanentError: the token is of another application.
        PostroomError: Discord refuses the token, or can't be asked.
    """
    found = await api.registration(client)
    if found.last_error is not None and found.is_ours is False:
        raise PermanentError(f"{found.last_error}: {found.mend}")
    return found.url
