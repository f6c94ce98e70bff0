"""The methods about the members of a chat: who is in it, who may do what, and that the bot leaves.

Source: https://core.telegram.org/bots/api#getchatmember, #promotechatmember, #restrictchatmember, #banchatmember
"""

from collections.abc import Mapping
from typing import Any

from emulator.platforms.store import FakeChat, FakePerson
from emulator.platforms.telegram import standing
from emulator.platforms.telegram.calls import (
    ApiMethod,
    MethodResult,
    Params,
    TelegramError,
    integer,
    is_true,
    parse_nested,
)
from emulator.platforms.telegram.methods.changes import GroupChange, changing
from emulator.platforms.telegram.methods.sender import TelegramSender
from emulator.platforms.telegram.updates import UpdateDelivery

MAX_CUSTOM_TITLE = 16
_RESTRICT = ("can_restrict_members", "restrict/unrestrict chat member")
_PROMOTE = ("can_promote_members", "change chat member status")


class TelegramMembers:
    """:mod:`..standing` says where the standing of each is kept."""

    def __init__(self, sender: TelegramSender, updates: UpdateDelivery) -> None:
        self._sender, self._updates = sender, updates
        self._store, self._objects, self._places = sender.store, sender.objects, sender.places

    def methods(self) -> tuple[ApiMethod, ...]:
        table = {
            "banChatMember": GroupChange(*_RESTRICT, self._ban),
            "unbanChatMember": GroupChange(*_RESTRICT, self._unban),
            "restrictChatMember": GroupChange(*_RESTRICT, self._restrict),
            "promoteChatMember": GroupChange(*_PROMOTE, self._promote),
            "setChatAdministratorCustomTitle": GroupChange(*_PROMOTE, self._set_custom_title),
            "setChatPermissions": GroupChange(_RESTRICT[0], "change chat permissions", self._set_permissions),
            "leaveChat": GroupChange("", "", self._leave),
        }
        return (
            ApiMethod("getChatMember", self._get_member),
            ApiMethod("getChatMemberCount", self._get_count),
            ApiMethod("getChatAdministrators", self._get_administrators),
            *changing(self._sender, table),
        )

    async def _get_member(self, params: Params) -> MethodResult:
        chat, wanted = self._places.known(params), str(integer(params.get("user_id"), 0))
        if wanted == str(self._objects.me["id"]):
            return MethodResult(self._objects.member(chat, None))
        person = self._store.person("telegram", wanted)
        if person is None:
            raise TelegramError(400, "Bad Request: PARTICIPANT_ID_INVALID")
        return MethodResult(self._objects.member(chat, person))

    async def _get_count(self, params: Params) -> MethodResult:
        return MethodResult(len(self._places.known(params).members) + 1)

    async def _get_administrators(self, params: Params) -> MethodResult:
        """The owner, and administrators other than bots, unless ``return_bots`` asks for them; this bot counts."""
        chat = self._places.known(params)
        if chat.kind == "private":
            raise TelegramError(400, "Bad Request: there are no administrators in the private chat")
        people = [self._store.person("telegram", each) for each in chat.members]
        all_of_them = [self._objects.member(chat, person) for person in people if person is not None]
        listed = [*all_of_them, self._objects.member(chat, None)]
        return MethodResult([each for each in listed if each["status"] in ("creator", "administrator")])

    def _ban(self, chat: FakeChat, params: Params) -> None:
        person = self._target(chat, params)
        self._store.leave(chat, person.id)
        self._change(chat, person, {"status": "kicked", "until_date": integer(params.get("until_date"), 0)})

    def _unban(self, chat: FakeChat, params: Params) -> None:
        """A member who is not banned is removed, unless ``only_if_banned``; after it the person may come again."""
        person = self._target(chat, params)
        if standing.of(chat, person.id)["status"] != "kicked":
            if is_true(params.get("only_if_banned")):
                return
            self._store.leave(chat, person.id)
        self._change(chat, person, None)

    def _restrict(self, chat: FakeChat, params: Params) -> None:
        _check_super(chat)
        person, allowed = self._target(chat, params), _permissions(params)
        is_free = all(standing.booleans("ChatPermissions", allowed).values())
        until = integer(params.get("until_date"), 0)
        is_member = person.id in chat.members
        self._change(chat, person, None if is_free else standing.restricted(allowed, until, is_member=is_member))

    def _promote(self, chat: FakeChat, params: Params) -> None:
        """Without a right that is true, the person is a member again."""
        _check_super(chat)
        person = self._target(chat, params)
        given = {name: is_true(value) for name, value in params.items() if name.startswith(("can_", "is_"))}
        rights = {**given, "can_manage_chat": any(given.values())}
        is_any = rights["can_manage_chat"]
        self._change(chat, person, standing.administrator(rights, can_be_edited=True) if is_any else None)

    def _set_custom_title(self, chat: FakeChat, params: Params) -> None:
        _check_super(chat)
        person, title = self._target(chat, params), str(params.get("custom_title") or "")
        before = standing.of(chat, person.id)
        if before["status"] != "administrator":
            raise TelegramError(400, "Bad Request: user is not an administrator")
        if len(title) > MAX_CUSTOM_TITLE:
            raise TelegramError(400, "Bad Request: ADMIN_RANK_INVALID")
        self._change(chat, person, {**before, "custom_title": title})

    def _set_permissions(self, chat: FakeChat, params: Params) -> None:
        if chat.kind == "private":
            raise TelegramError(400, "Bad Request: can't change private chat permissions")
        self._store.set_facts(chat, permissions=standing.booleans("ChatPermissions", _permissions(params)))

    def _leave(self, chat: FakeChat, params: Params) -> None:
        """The bot gets the update of its own status too; only a person can let it in again."""
        if chat.kind == "private":
            raise TelegramError(400, "Bad Request: chat member status can't be changed in private chats")
        before = self._objects.member(chat, None)
        self._store.set_facts(chat, blocked=True, left=True, standing={standing.BOT: None})
        now = self._store.chat("telegram", chat.id) or chat
        self._tell("my_chat_member", now, before, self._objects.member(now, None))

    def _change(self, chat: FakeChat, person: FakePerson, kept: Mapping[str, Any] | None) -> None:
        """Give *person* another standing; None: that of a plain member or stranger."""
        before = self._objects.member(chat, person)
        self._store.set_facts(chat, standing={person.id: None})  # a patch: the old fields must not stay
        self._store.set_facts(chat, standing={person.id: kept})
        now = self._store.chat("telegram", chat.id) or chat
        self._tell("chat_member", now, before, self._objects.member(now, person))

    def _tell(self, kind: str, chat: FakeChat, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Push the update about a member's new status, if the bot asked for the kind."""
        change = {
            "chat": self._objects.chat(chat),
            "from": self._objects.me,
            "date": self._sender.clock.now_ms() // 1000,
            "old_chat_member": before,
            "new_chat_member": now,
        }
        self._updates.push(kind, change, chat=chat.id, person=None)

    def _target(self, chat: FakeChat, params: Params) -> FakePerson:
        """The person whom a call concerns: no owner, and in a group."""
        if chat.kind == "private":
            raise TelegramError(400, "Bad Request: chat member status can't be changed in private chats")
        person = self._store.person("telegram", str(integer(params.get("user_id"), 0)))
        if person is None:
            raise TelegramError(400, "Bad Request: PARTICIPANT_ID_INVALID")
        if standing.of(chat, person.id)["status"] == "creator":
            raise TelegramError(400, "Bad Request: can't remove chat owner")
        return person


def _check_super(chat: FakeChat) -> None:
    if chat.kind == "group":
        raise TelegramError(400, "Bad Request: method is available for supergroup and channel chats only")


def _permissions(params: Params) -> dict[str, Any]:
    given = parse_nested(params.get("permissions") or {})
    if not isinstance(given, dict):
        raise TelegramError(400, "Bad Request: can't parse permissions JSON object")
    return given
