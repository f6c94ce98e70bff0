"""The objects that an interaction's ids stand for: ``resolved``.

Source: https://discord.com/developers/docs/interactions/receiving-and-responding#interaction-object-resolved-data-structure
"""

from collections.abc import Mapping, Sequence
from typing import Any

from emulator.platforms.discord import component_tree
from emulator.platforms.discord.api import FakeDiscord
from emulator.platforms.errors import ActionRefused
from emulator.platforms.store import FakeChat, PlatformStore

_USER_OPTION, _CHANNEL_OPTION, _MENTIONABLE_OPTION = 6, 7, 9


class Resolver:
    """Looks ids up in the store; an unknown one raises ActionRefused."""

    def __init__(self, store: PlatformStore, discord: FakeDiscord) -> None:
        self._store, self._discord = store, discord

    def message(self, chat: FakeChat, message_id: str) -> dict[str, Any]:
        message = self._store.message(chat, message_id)
        if message is None or message.detail.get("for") is not None:
            raise ActionRefused(f"there is no message {message_id} that an app may read in channel {chat.id}")
        return {"messages": {message_id: self._discord.objects.message(chat, message)}}

    def people(self, ids: Sequence[str]) -> dict[str, Any]:
        found = {}
        for each in ids:
            person = self._store.person("discord", each)
            if person is None:
                raise ActionRefused(f"there is no person with the id {each}")
            found[each] = self._discord.objects.user(person)
        return {"users": found} if found else {}

    def channels(self, ids: Sequence[str]) -> dict[str, Any]:
        found = {}
        for each in ids:
            chat = self._store.chat("discord", each)
            if chat is None:
                raise ActionRefused(f"there is no channel {each}")
            found[each] = self._discord.objects.channel(chat)
        return {"channels": found} if found else {}

    def attachments(self, chat: FakeChat, files: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        found = {file["attachment"]: self._discord.objects.attachment(chat, file) for file in files}
        return {"attachments": found} if found else {}

    def chosen(self, kind: int, values: Sequence[str]) -> dict[str, Any]:
        """The objects behind the values of a select of this *kind*."""
        if kind in (component_tree.USER, component_tree.MENTIONABLE):
            return self.people(values)
        return self.channels(values) if kind == component_tree.CHANNEL else {}

    def of_options(
        self, chat: FakeChat, options: Sequence[Mapping[str, Any]], files: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """The objects behind the options of a command."""
        found: dict[str, Any] = self.attachments(chat, files)
        for option in component_tree.walk([{"components": list(options)}]):
            for inner in (option, *(option.get("options") or ())):
                if inner.get("type") in (_USER_OPTION, _MENTIONABLE_OPTION):
                    found = _merged(found, self.people([str(inner["value"])]))
                if inner.get("type") == _CHANNEL_OPTION:
                    found = _merged(found, self.channels([str(inner["value"])]))
        return found

    def of_form(
        self, chat: FakeChat, components: Sequence[Mapping[str, Any]], files: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """The objects behind the values of a form."""
        found = self.attachments(chat, files)
        for component in component_tree.walk(components):
            if component.get("type") in component_tree.SELECTS:
                found = _merged(found, self.chosen(int(component["type"]), component.get("values") or ()))
        return found


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {key: {**one.get(key, {}), **other.get(key, {})} for key in {**one, **other}}
