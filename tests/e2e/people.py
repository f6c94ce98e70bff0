"""People of the fake Telegram, what they say and hear, and the cards of the owner."""

import itertools
from typing import Any

from tests.e2e.conftest import System, until

ANA = "5000000001"  # the owner of the bot
_people = itertools.count(6000000001)
_groups = itertools.count(7000000001)


class Person:
    """A person on Telegram."""

    def __init__(self, house: System, id_: str | None = None) -> None:
        self.house = house
        self.id = id_ or str(next(_people))

    def says(
        self, text: str, chat: str | None = None, *, thread: int | None = None, reply_to: str | None = None
    ) -> None:
        """Write in the direct chat with the bot, or in *chat*."""
        body: dict[str, Any] = {"text": text, "chat": chat, "thread": thread, "reply_to": reply_to}
        status, answer = self.house.post(f"/control/telegram/users/{self.id}/message", body, "platforms")
        assert status == 201, answer

    def presses(self, card: dict[str, Any], label: str) -> None:
        """Press a button of a card in their own chat."""
        where = f"/control/telegram/chats/{card['chat']}/messages/{card['id']}/press"
        status, answer = self.house.post(where, {"person": self.id, "data": _data(card, label)}, "platforms")
        assert status == 201, answer

    def forges_a_press(self, card: dict[str, Any], label: str) -> None:
        """Press a button of another person's card: the token of a button can be guessed."""
        where = {"message_id": int(card["id"]), "date": 1, "chat": {"id": int(card["chat"]), "type": "private"}}
        sender = {"id": int(self.id), "is_bot": False, "first_name": "Mallory"}
        query = {"id": "1", "from": sender, "message": where, "chat_instance": "1", "data": _data(card, label)}
        status, answer = self.house.post("/control/telegram/updates", {"callback_query": query}, "platforms")
        assert status == 201, answer


def _data(card: dict[str, Any], label: str) -> str:
    """The token of the button."""
    (data,) = (each["callback_data"] for row in card["keyboard"] for each in row if each["text"] == label)
    return str(data)


def messages(house: System, chat: str) -> list[dict[str, Any]]:
    """The messages of the bot in the chat, as they read now."""
    status, found = house.get(f"/control/telegram/chats/{chat}", "platforms")
    return [each for each in found["messages"] if each["author"]["is_bot"]] if status == 200 else []


def heard(house: System, chat: str) -> list[str]:
    """The texts of the same."""
    return [each["text"] for each in messages(house, chat)]


def hears(house: System, chat: str, text: str) -> str:
    """Wait for a message of the bot that contains *text*; the whole text."""
    found = until(
        f"{text!r} in chat {chat}, where there was: {heard(house, chat)}",
        lambda: [each for each in heard(house, chat) if text in each],
    )
    return found[0]


def card(house: System, about: str, chat: str = ANA) -> dict[str, Any]:
    """The newest card with buttons whose text contains *about*."""

    def found() -> dict[str, Any] | None:
        cards = [each for each in messages(house, chat) if each["keyboard"] and about in each["text"]]
        return cards[-1] if cards else None

    return until(f"a card about {about} in chat {chat}", found)


def cards(house: System, about: str, chat: str = ANA) -> list[dict[str, Any]]:
    """All cards about *about*, open or decided."""
    return [each for each in messages(house, chat) if about in each["text"]]


def dropped(house: System, person: Person) -> list[str]:
    """The reasons for which this person's messages were dropped, in order."""
    return [
        reason for (reason,) in house.query("SELECT reason FROM dropped WHERE sender_id = ? ORDER BY id", person.id)
    ]


def refused(house: System, person: Person, reason: str, times: int = 1) -> None:
    """Wait until *reason* has dropped so many messages of this person; there must be no other reason."""
    until(f"{times} x {reason} for {person.id}", lambda: dropped(house, person).count(reason) >= times)
    assert set(dropped(house, person)) == {reason}


def asked_for(house: System, text: str) -> list[str]:
    """The agents that got *text*."""
    return [agent for (agent,) in house.query("SELECT agent FROM messages WHERE message = ? ORDER BY id", text)]


def stands_anywhere(house: System, text: str) -> list[str]:
    """The tables that contain *text* in any column."""
    tables = [name for (name,) in house.query("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return [table for table in tables if text in repr(house.query(f"SELECT * FROM {table}"))]


def code_for(house: System, grants: str, agent: str | None = None) -> str:
    """The message that carries a new one-time code."""
    say: str = house.call("POST", "/api/pairings", {"grants": grants, "agent": agent})["say"]
    return say


def room(house: System, *, policy: str, direct: Person | None = None, **wiring: Any) -> tuple[str, int]:
    """A chat where the agent answers, a new group or a direct chat; its id on Telegram, and its row."""
    chat = direct.id if direct else f"-{next(_groups)}"
    made = {"channel": "telegram", "platformId": chat, "isGroup": direct is None, "senderPolicy": policy}
    row: int = house.call("POST", "/api/chats", made)["chat"]["id"]
    house.call("PUT", f"/api/chats/{row}/wirings/assistant", wiring)
    return chat, row
