"""What people do with an app of the fake Discord: commands with options, menus, selects and forms.

Each becomes an interaction, whose delivery runs when the method returns; :mod:`.people` has ``/ask`` and buttons.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from emulator.platforms.discord import component_tree
from emulator.platforms.discord.acts.people import DiscordPeople
from emulator.platforms.discord.acts.resolved import Resolver
from emulator.platforms.discord.api import FakeDiscord
from emulator.platforms.discord.interaction_rows import InteractionRow
from emulator.platforms.discord.interactions import Interactions
from emulator.platforms.discord.payloads import AUTOCOMPLETE, COMMAND, COMPONENT, SUBMIT
from emulator.platforms.errors import ActionRefused
from emulator.platforms.store import FakeChat, FakeMessage, FakePerson, PlatformStore

SLASH, USER_MENU, MESSAGE_MENU = 1, 2, 3
_GROUPS = (1, 2)  # the types of options that hold options: a subcommand, and a group of them
_ATTACHMENT = 11
Files = Sequence[Mapping[str, Any]]


class DiscordUses:
    """Plays the people."""

    def __init__(
        self, store: PlatformStore, discord: FakeDiscord, interactions: Interactions, people: DiscordPeople
    ) -> None:
        self._store, self._discord, self._interactions, self._people = store, discord, interactions, people
        self._resolver = Resolver(store, discord)

    def command(
        self, person_id: str, name: str, given: Mapping[str, Any], *, channel_id: str | None, shown: Files = ()
    ) -> InteractionRow:
        """*person_id* uses the registered command *name*, e.g. ``ask`` or ``agent memory show``.

        Args:
            given: the options' values by name; *shown* fills the options for files, in their order.
        """
        person, chat = self._place(person_id, channel_id)
        files = self._attached(shown)
        data = self._command_data(name, given, files, chat)
        said = " ".join(f"{key}:{value}" if key != "prompt" else str(value) for key, value in given.items())
        return self._ask(chat, person, name, said, {"type": COMMAND, "data": data}, files=files)

    async def choices(
        self, person_id: str, name: str, given: Mapping[str, Any], focused: str, *, channel_id: str | None
    ) -> list[dict[str, Any]]:
        """What the app suggests for the option *focused*, while the person types. Raises ActionRefused."""
        person, chat = self._place(person_id, channel_id)
        data = self._command_data(name, {focused: "", **given}, (), chat, focused=focused)
        return await self._interactions.choices(chat, person, {"type": AUTOCOMPLETE, "data": data})

    def menu(
        self, person_id: str, name: str, channel_id: str, *, message_id: str = "", target: str = ""
    ) -> InteractionRow:
        """*person_id* chooses a command in the menu of a message, or of the person *target*."""
        person, chat = self._place(person_id, channel_id)
        kind = MESSAGE_MENU if message_id else USER_MENU
        command = self._registered(name, kind)
        resolved = self._resolver.message(chat, message_id) if message_id else self._resolver.people([target])
        data = {
            "id": command["id"],
            "name": name,
            "type": kind,
            "target_id": message_id or target,
            "resolved": resolved,
        }
        said = "" if message_id else "@" + self._person(target).name
        return self._ask(chat, person, name, said, {"type": COMMAND, "data": data}, reply_to=message_id or None)

    def select(
        self, person_id: str, channel_id: str, message_id: str, custom_id: str, values: Sequence[str]
    ) -> InteractionRow:
        """*person_id* chooses *values* in a select under a message."""
        person, chat = self._place(person_id, channel_id)
        message = self._seen(chat, message_id, person)
        component = component_tree.find(message.detail.get("components", ()), custom_id)
        if component is None or component.get("type") not in component_tree.SELECTS:
            raise ActionRefused(f"message {message_id} has no select with this custom_id")
        _check_chosen(component, values)
        data = {"component_type": component["type"], "custom_id": custom_id, "id": 2, "values": list(values)}
        if resolved := self._resolver.chosen(component["type"], values):
            data["resolved"] = resolved
        wired = self._discord.objects.message(chat, message)
        body = {"type": COMPONENT, "data": data, "message": wired}
        return self._interactions.begin(self._id(), chat, person, message, custom_id, particular=body, kind="select")

    def submit(
        self, person_id: str, interaction_id: str, given: Mapping[str, Any], *, shown: Files = ()
    ) -> InteractionRow:
        """*person_id* sends the form that answered their interaction; *given* are the values by ``custom_id``."""
        opened = self._interactions.rows.get(interaction_id)
        modal = self._interactions.rows.modal(interaction_id)
        person, chat = self._place(person_id, opened.channel)
        message = self._store.message(chat, opened.message)
        if modal is None or opened.person != person.id or message is None:
            raise ActionRefused(f"interaction {interaction_id} opened no form for this person")
        files = self._attached(shown)
        if files:  # they need a message that keeps them
            self._discord.messages.add(chat, "", {"files": files, "for": person.id, "flags": 64}, author=person.id)
        uploads = iter(files)
        components = [_filled(each, given, uploads) for each in modal["components"]]
        data = {
            "custom_id": modal["custom_id"],
            "components": components,
            "resolved": self._resolver.of_form(chat, components, files),
        }
        body: dict[str, Any] = {"type": SUBMIT, "data": data}
        is_from_component = opened.custom_id is not None
        if is_from_component:
            body["message"] = self._discord.objects.message(chat, message)
        custom_id = opened.custom_id if is_from_component else None
        return self._interactions.begin(self._id(), chat, person, message, custom_id, particular=body, kind="modal")

    # parts

    def _ask(
        self, chat: FakeChat, person: FakePerson, name: str, said: str, body: Mapping[str, Any], *,
        files: Files = (), reply_to: str | None = None,
    ) -> InteractionRow:  # fmt: skip
        interaction_id = self._id()
        detail: dict[str, Any] = {"command": name, "interaction": interaction_id, "files": list(files)}
        if reply_to is not None:
            detail["reply_to"] = reply_to
        question = self._discord.messages.add(chat, said, detail, author=person.id)
        return self._interactions.begin(interaction_id, chat, person, question, particular=body)

    def _command_data(
        self, name: str, given: Mapping[str, Any], files: Files, chat: FakeChat, *, focused: str = ""
    ) -> dict[str, Any]:
        first, *path = name.split()
        command = self._registered(first, SLASH)
        options = _options(command.get("options") or [], path, given, iter(files), focused)
        data = {"id": command["id"], "name": first, "type": SLASH, "options": options}
        if resolved := self._resolver.of_options(chat, options, files):
            data["resolved"] = resolved
        return data

    def _registered(self, name: str, kind: int) -> dict[str, Any]:
        kept = [json.loads(self._store.get(key) or "[]") for key in ("discord.commands", "discord.commands.guild")]
        for command in chain(*kept):
            if command.get("name") == name and command.get("type", SLASH) == kind:
                return dict(command)
        raise ActionRefused(f"the app has registered no such command: {name}")

    def _attached(self, shown: Files) -> list[dict[str, Any]]:
        return [{**each, "attachment": self._id()} for each in shown]

    def _seen(self, chat: FakeChat, message_id: str, person: FakePerson) -> FakeMessage:
        message = self._store.message(chat, message_id)
        if message is None or message.detail.get("for") not in (None, person.id):
            raise ActionRefused(f"{person.name} sees no message {message_id} in channel {chat.id}")
        return message

    def _person(self, person_id: str) -> FakePerson:
        return self._people.find_person(person_id)

    def _place(self, person_id: str, channel_id: str | None) -> tuple[FakePerson, FakeChat]:
        person = self._person(person_id)
        return person, self._people.find_channel(person, channel_id)

    def _id(self) -> str:
        return str(self._discord.snowflakes.next())


def _options(
    known: Sequence[Mapping[str, Any]], path: Sequence[str], given: Mapping[str, Any], files: Any, focused: str
) -> list[dict[str, Any]]:
    """The options of a command as Discord sends them; *path* leads to a subcommand."""
    if path:
        group = next((each for each in known if each.get("type") in _GROUPS and each.get("name") == path[0]), None)
        if group is None:
            raise ActionRefused(f"the command has no part {path[0]}")
        inner = _options(group.get("options") or [], path[1:], given, files, focused)
        return [{"name": group["name"], "type": group["type"], "options": inner}]
    wired: list[dict[str, Any]] = []
    for option in known:
        name, kind = str(option["name"]), int(option["type"])
        value = next((file["attachment"] for file in files), None) if kind == _ATTACHMENT else given.get(name)
        if value in (None, "") and name != focused:
            if option.get("required") and not focused:
                raise ActionRefused(f'the option "{name}" is required')
            continue
        sent: dict[str, Any] = {"name": name, "type": kind, "value": value if name == focused else _typed(kind, value)}
        wired.append({**sent, "focused": True} if name == focused else sent)
    return wired


def _typed(kind: int, value: Any) -> Any:
    """The value of an option in its type: 4 integer, 5 boolean, 10 number; texts and ids stay texts."""
    try:
        if kind == 4:
            return int(value)
        if kind == 10:
            return float(value)
    except (TypeError, ValueError):
        raise ActionRefused(f"{value} is no number") from None
    return value in (True, "true", "on") if kind == 5 else str(value)


def _check_chosen(component: Mapping[str, Any], values: Sequence[str]) -> None:
    least, most = int(component.get("min_values", 1)), int(component.get("max_values", 1))
    if not least <= len(values) <= most:
        raise ActionRefused(f"choose {least} to {most} values")
    known = [option.get("value") for option in component.get("options") or ()]
    if component["type"] == 3 and not set(values) <= set(known):
        raise ActionRefused("the select has no such value")


def _filled(component: Mapping[str, Any], given: Mapping[str, Any], files: Any) -> dict[str, Any]:
    """A component of a form as Discord sends it back: with what the person wrote or chose."""
    kind, known = component.get("type"), {"type": component.get("type"), "id": component.get("id", 0)}
    if kind == 1:
        return {**known, "components": [_filled(each, given, files) for each in component.get("components") or ()]}
    if kind == 18:
        return {**known, "component": _filled(component["component"], given, files)}
    name = component.get("custom_id")
    if name is None:
        return known
    value = given.get(str(name))
    if kind == component_tree.FILE_UPLOAD:
        return {**known, "custom_id": name, "values": [file["attachment"] for file in files]}
    if kind in (*component_tree.SELECTS, 22):
        return {**known, "custom_id": name, "values": list(value or [])}
    return {
        **known,
        "custom_id": name,
        "value": value in (True, "on") if kind == 23 else (value if kind == 21 else value or ""),
    }
