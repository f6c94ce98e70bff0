"""The bodies of interactions, in Discord's form: a command, or the press of a button.

Source: https://discord.com/developers/docs/interactions/receiving-and-responding#interaction-object
"""

from typing import Any

from emulator.platforms.discord import component_tree
from emulator.platforms.discord.app import GUILD_ID
from emulator.platforms.discord.guild_objects import PERMISSIONS, member
from emulator.platforms.discord.objects import DiscordObjects
from emulator.platforms.store import FakeChat, FakeMessage, FakePerson

PING, COMMAND, COMPONENT, AUTOCOMPLETE, SUBMIT = 1, 2, 3, 4, 5


def ping(application_id: str, *, id_: str, token: str) -> dict[str, Any]:
    """The PING that checks an endpoint before Discord accepts it."""
    return {
        "version": 1,
        "type": PING,
        "id": id_,
        "token": token,
        "application_id": application_id,
        "user": None,
        "entitlements": [],
    }


def command(name: str, prompt: str) -> dict[str, Any]:
    """The fields of ``/name prompt`` that other interactions lack."""
    options = [{"name": "prompt", "type": 3, "value": prompt}]
    return {"type": COMMAND, "data": {"id": "1290000000000001319", "name": name, "type": 1, "options": options}}


def press(objects: DiscordObjects, chat: FakeChat, message: FakeMessage, custom_id: str) -> dict[str, Any]:
    """The fields of a press of the button *custom_id* under *message* that other interactions lack."""
    wired = objects.message(chat, message)
    button = component_tree.find(wired["components"], custom_id)
    number = button.get("id", 0) if button else 0
    data = {"component_type": 2, "custom_id": custom_id, "id": number}
    return {"type": COMPONENT, "data": data, "message": wired}


def interaction(
    objects: DiscordObjects,
    chat: FakeChat,
    person: FakePerson,
    particular: dict[str, Any],
    *,
    application_id: str,
    id_: str,
    token: str,
) -> dict[str, Any]:
    """The whole body, for a direct channel or a server."""
    user = objects.user(person)
    common: dict[str, Any] = {
        "version": 1,
        "id": id_,
        "application_id": application_id,
        "token": token,
        "locale": "en-US",
        "entitlements": [],
        "entitlement_sku_ids": [],
        "attachment_size_limit": 10_485_760,
        "channel": objects.channel(chat),
        "channel_id": chat.id,
        **particular,
    }
    if chat.kind == "dm":
        return {
            **common,
            "user": user,
            "app_permissions": "562949953601536",
            "context": 1,
            "authorizing_integration_owners": {"0": "0"},
        }
    return {
        **common,
        "guild_id": GUILD_ID,
        "guild": {"id": GUILD_ID, "features": [], "locale": "en-US"},
        "guild_locale": "en-US",
        "member": {**member(user), "permissions": PERMISSIONS},
        "app_permissions": PERMISSIONS,
        "context": 0,
        "authorizing_integration_owners": {"0": GUILD_ID},
    }
