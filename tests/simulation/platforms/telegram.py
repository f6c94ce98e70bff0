"""Telegram: calls of the Bot API, and webhooks that it brings until we say 2xx."""

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from tests.simulation.machine.process import Reset
from tests.simulation.machine.wires import Asked, Told
from tests.simulation.parts import Surroundings
from tests.simulation.platforms import forms
from tests.simulation.platforms.base import Platform
from tests.simulation.platforms.forms import Uploads
from tests.simulation.platforms.messages import Arrival, Place, SentFile, Written

_RETRY_S = (1, 2, 4, 8, 15, 30, 60)


class Telegram(Platform):
    """See the module."""

    NAME = "telegram"

    def __init__(self, world: Surroundings, *, word: str = "", first: int = 1000) -> None:
        super().__init__(world, word=word)
        self._numbers = first
        number, name = int(f"7100200300{self.bot}"), f"aurora{self.bot}_helper_bot"
        self._me = {"id": number, "is_bot": True, "first_name": "Aurora", "username": name}
        self._mention = f"@{name}"
        self._token, self._secret = f"{number}:AAExample", f"a-Secret_that-telegram-repeats{self.bot}"

    def _own_settings(self) -> Mapping[str, str]:
        return {
            "BOT_TOKEN": self._token,
            "WEBHOOK_SECRET": self._secret,
            "BOT_USERNAME": str(self._me["username"]),
            "API_BASE": f"http://{self.address[0]}",
        }

    # What Postroom calls.

    def host(self, asked: Asked) -> Told | None:
        if _method(asked) == "sendMessage" and not forms.read(asked)[0].get(
            "text"
        ):  # so it asks whether sends are answered
            return _refusal(400, "Bad Request: message text is empty")
        return super().host(asked)

    def _take(self, asked: Asked) -> Told:
        if f"/bot{self._token}/" not in asked.path:
            self.wrong.append(f"another bot called {self.account}")
        if asked.path.startswith("/file/"):
            return self._content(_method(asked))
        result = self._result(_method(asked), *forms.read(asked))
        return Told(body=json.dumps({"ok": True, "result": result}).encode())

    def _busy(self) -> Told:
        return _refusal(429, "Too Many Requests", retry_after=self._dice.randint(1, 5))

    def _broken(self) -> Told:
        return _refusal(502, "Bad Gateway")

    def _result(self, method: str, body: dict[str, Any], uploads: Uploads) -> Any:
        if method == "sendChatAction":
            return self._think(str(body["chat_id"]))
        if method == "deleteMessage":
            self.removed.add((str(body["chat_id"]), str(body["message_id"])))
        if method == "sendMediaGroup":
            return self._album(body, uploads)
        if method == "sendMessage" or uploads:
            number = self._next_number()
            self.arrivals.append(self._arrival(body, uploads, number))
            return {"message_id": number, "date": 1, "chat": {"id": int(body["chat_id"]), "type": "private"}}
        if method == "getFile":
            name = body["file_id"]
            return {"file_id": name, "file_size": len(self.files[name].content), "file_path": f"documents/{name}"}
        if method == "getMe":
            return self._me
        if method == "getWebhookInfo":
            return {"url": "", "has_custom_certificate": False, "pending_update_count": 0}
        return True

    def _album(self, body: dict[str, Any], uploads: Uploads) -> list[dict[str, Any]]:
        """One message for each file, in the order of the media; people see them together, with one text."""
        wanted = [int(each["media"].removeprefix("attach://f")) for each in body["media"]]
        uploads = [uploads[at] for at in wanted]
        numbers = [self._next_number() for _ in uploads]
        caption = next((each["caption"] for each in body["media"] if each.get("caption")), "")
        self.arrivals.append(self._arrival(body | {"caption": caption}, uploads, numbers[0]))
        return [{"message_id": number, "date": 1, "chat": {"id": int(body["chat_id"])}} for number in numbers]

    def _arrival(self, body: dict[str, Any], uploads: Uploads, number: int) -> Arrival:
        thread = body.get("message_thread_id")
        rows = (body.get("reply_markup") or {}).get("inline_keyboard", [])
        buttons = {each["text"]: each.get("callback_data", "") for row in rows for each in row}
        where = str(body["chat_id"]), None if thread is None else str(thread)
        text = body.get("text", body.get("caption", ""))
        return Arrival(*where, text, self._world.now_s(), number, buttons, self._uploaded(uploads), self.bot)

    # What people do.

    def key_of(self, written: Written) -> str:
        return f"{self._me['id']}:{written.event}"

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def send(self, place: Place, text: str, files: Sequence[SentFile]) -> list[Written]:
        """Each file is an update of its own. One of them has the text: in a group the first, which names the bot."""
        said = 0 if place.is_group else self._dice.randrange(len(files))
        album = files[0].name if len(files) > 1 else ""
        return [self._sent(place, text if at == said else "", [file], album) for at, file in enumerate(files)]

    async def bring(self, written: Written, dice: random.Random) -> None:
        """Until it is accepted; now and then once more, as if the 200 had been missed."""
        attempt = 0
        written.began_s = self._world.now_s()
        while not written.accepted:
            attempt += 1
            status = await self._post(written)
            written.statuses.append(status)
            written.accepted = 200 <= status < 300
            if not written.accepted:
                await asyncio.sleep(_RETRY_S[min(attempt, len(_RETRY_S)) - 1])
        written.answered_s = self._world.now_s()
        if dice.random() < 0.1:
            await asyncio.sleep(dice.choice([0, 0.1, 5]))
            written.statuses.append(await self._post(written))

    async def _post(self, written: Written) -> int:
        """The status; 0: no answer."""
        headers = {"content-type": "application/json", "x-telegram-bot-api-secret-token": self._secret}
        body = json.dumps(self._update(written)).encode()
        try:
            return (await self._world.ask("ingest", "POST", f"/webhooks/{self.account}", headers, body)).status
        except Reset:
            return 0

    def _update(self, written: Written) -> dict[str, Any]:
        place = written.place
        sender = {"id": int(place.sender), "first_name": f"P{place.sender}", "is_bot": False}
        group = {"title": f"Group {place.chat}", "type": "supergroup", "is_forum": place.thread is not None}
        direct = {"type": "private", "first_name": f"P{place.sender}"}
        chat = {"id": int(place.chat), **(group if place.is_group else direct)}
        message: dict[str, Any] = {"message_id": written.number, "date": 1, "chat": chat, "text": written.text}
        if place.thread is not None:
            message |= {"message_thread_id": int(place.thread), "is_topic_message": True}
        if place.is_group and written.text:  # where the bot hears its name alone
            message["text"] = f"{self._mention} {written.text}"
            message["entities"] = [{"type": "mention", "offset": 0, "length": len(self._mention)}]
        if written.files:
            message = _with_file(message, written.files[0], written.album)
        update: dict[str, Any] = {"update_id": written.event}
        if written.presses:
            asked = {"id": str(written.event), "from": sender, "chat_instance": "1", "data": written.presses}
            update["callback_query"] = asked | {"message": message | {"from": self._me}}
        elif written.is_edit:
            update["edited_message"] = message | {"from": sender, "edit_date": 2}
        else:
            update["message"] = message | {"from": sender}
        return update


def _method(asked: Asked) -> str:
    return asked.path.rpartition("/")[2]


def _with_file(message: dict[str, Any], file: SentFile, album: str) -> dict[str, Any]:
    """The message with a file, and its text as the caption."""
    caption, entities = message.pop("text"), message.pop("entities", None)
    given: dict[str, Any] = {"file_id": file.name, "file_unique_id": file.name, "file_size": len(file.content)}
    if file.is_photo:
        message["photo"] = [given | {"width": 9, "height": 9}]
    else:
        message["document"] = given | {"file_name": file.name, "mime_type": "application/octet-stream"}
    message |= {"caption": caption} if caption else {}
    message |= {"caption_entities": entities} if entities else {}
    return message | ({"media_group_id": album} if album else {})


def _refusal(status: int, why: str, **parameters: Any) -> Told:
    said = {"ok": False, "error_code": status, "description": why, "parameters": parameters}
    return Told(status, json.dumps(said).encode())
