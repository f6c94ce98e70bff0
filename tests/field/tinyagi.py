"""The adapter for TinyAGI's API: a system behind ``/api/message`` and ``/api/responses``, and a channel client.

The client does what TinyAGI's own does, a bot that asks Telegram for its updates, and repeats what its server did not
take. The server is any program that speaks this API; without another, Postroom's own.
"""

import contextlib
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.field.http import ask, call
from tests.field.postroom import TOKEN, Postroom
from tests.field.systems import Surroundings

PAUSE_S = 0.05


class TinyAgi:
    """The adapter; *folder* keeps what the server keeps."""

    offers: frozenset[str] = frozenset({"agents"})
    webhooks: Mapping[str, str] = {}
    second_agent = "@helper "

    def __init__(self, folder: Path) -> None:
        self._server = Postroom(folder)
        self._offset = 0  # TinyAGI's client keeps it at Telegram, where a restart finds it
        self._asked: dict[str, str] = {}  # the chat of each message, by its id
        self._over = threading.Event()
        self._client: threading.Thread | None = None

    def start(self, around: Surroundings) -> None:
        self._server.start(around)
        self._over.clear()
        bot = f"{around.telegram}/bot{around.telegram_token}"
        self._client = threading.Thread(target=self._serve, args=(bot,), daemon=True, name="the channel client")
        self._client.start()

    def stop(self) -> None:
        self._end_client()
        self._server.stop()

    def kill(self) -> None:
        self._end_client()
        self._server.kill()

    def close(self) -> None:
        self._end_client()
        self._server.close()

    def is_idle(self) -> bool:
        found = self._api("GET", "/queue/status")
        return not any(found[name] for name in ("incoming", "queued", "processing", "outgoing"))

    def speak(self, text: str) -> str:
        return self._server.speak(text)

    def written(self) -> Iterable[Path]:
        return self._server.written()

    def _end_client(self) -> None:
        self._over.set()
        if self._client is not None:
            self._client.join(30)
            self._client = None

    def _serve(self, bot: str) -> None:
        while not self._over.wait(PAUSE_S):
            with contextlib.suppress(OSError, AssertionError):  # somebody is away: the next round asks again
                self._fetch(bot)
                self._deliver(bot)

    def _fetch(self, bot: str) -> None:
        wanted = {"offset": self._offset, "allowed_updates": ["message"]}
        for update in ask("POST", f"{bot}/getUpdates", wanted)["result"]:
            if not self._take(update):
                break
            self._offset = update["update_id"] + 1

    def _deliver(self, bot: str) -> None:
        for response in self._api("GET", "/responses/pending?channel=telegram"):
            chat = self._asked.get(response["messageId"], response["senderId"])
            if response["message"] and not self._send(bot, chat, response["message"]):
                break
            self._api("POST", f"/responses/{response['id']}/ack")

    def _take(self, update: dict[str, Any]) -> bool:
        """Post a message; whether the server has it."""
        message = update["message"]
        sender, id_ = message["from"], f"telegram_{update['update_id']}"
        body = {"channel": "telegram", "sender": sender["first_name"], "senderId": str(sender["id"]), "messageId": id_}
        self._asked[id_] = str(message["chat"]["id"])
        status, _ = call("POST", f"{self._server.api}/api/message", {**body, "message": message["text"]}, _OPERATOR)
        return status in (200, 409)  # 409: it has it already

    def _send(self, bot: str, chat: str, text: str) -> bool:
        parts = [text[at : at + 4096] for at in range(0, len(text), 4096)]
        return all(call("POST", f"{bot}/sendMessage", {"chat_id": chat, "text": part})[0] == 200 for part in parts)

    def _api(self, method: str, path: str) -> Any:
        return ask(method, f"{self._server.api}/api{path}", token=TOKEN)


_OPERATOR = {"Authorization": f"Bearer {TOKEN}"}
