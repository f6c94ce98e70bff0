"""What somebody is in a chat: owner, administrator, member, restricted or banned; and the fields of a ChatMember.

``facts["standing"]`` holds the fields of those who are more or less than a member, by the person's id or ``BOT``. The
first member of a group is its owner. An administrator's rights and a restriction are the Booleans of their type.

Source: https://core.telegram.org/bots/api#chatmember, #chatadministratorrights, #chatpermissions
"""

from collections.abc import Mapping
from typing import Any

from emulator.platforms.store import FakeChat
from emulator.platforms.telegram import schema

BOT = "bot"  # the key of the bot itself
GENERAL = 1  # the number of the General topic, which no message has


def booleans(type_name: str, given: Mapping[str, Any], default: bool = False) -> dict[str, bool]:
    """Each Boolean field of *type_name*: as *given*, else *default*."""
    fields = schema.spec()["types"][type_name]["fields"]
    return {name: bool(given.get(name, default)) for name, (_, *types) in fields.items() if types == ["Boolean"]}


def administrator(given: Mapping[str, Any], *, can_be_edited: bool) -> dict[str, Any]:
    """The standing of an administrator with the rights that are true in *given*."""
    rights = booleans("ChatMemberAdministrator", given)
    return {"status": "administrator", **rights, "can_be_edited": can_be_edited}


def restricted(permissions: Mapping[str, Any], until: int, *, is_member: bool) -> dict[str, Any]:
    """The standing of a person who may do no more than *permissions* say."""
    allowed = booleans("ChatMemberRestricted", permissions)
    return {"status": "restricted", **allowed, "is_member": is_member, "until_date": until}


def of(chat: FakeChat, key: str) -> dict[str, Any]:
    """The fields of the ChatMember without its user; *key* is a person's id, or ``BOT``."""
    if key == BOT and chat.facts.get("blocked"):
        return {"status": "left"} if chat.facts.get("left") else {"status": "kicked", "until_date": 0}
    if key != BOT and chat.kind != "private" and chat.members[:1] == (key,):
        return {"status": "creator", "is_anonymous": False}
    kept = chat.facts.get("standing", {}).get(key)
    if kept is not None:
        return dict(kept)
    return {"status": "member" if key in (BOT, *chat.members) else "left"}


def has_right(chat: FakeChat, right: str) -> bool:
    """Whether the bot may do what *right* names; in a private chat it may."""
    return chat.kind == "private" or bool(of(chat, BOT).get(right))
