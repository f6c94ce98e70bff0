"""The Bot API for one bot: every call, what it counts against, and what its answer means.

Source: https://core.telegram.org/bots/api (10.3): #making-requests, #sending-files, #getfile.
"""

from collections.abc import Mapping
from typing import Any

from shared.channels import platform_api
from shared.channels.base import OutgoingFile
from shared.channels.multipart import Form
from shared.channels.platform_api import ApiAnswer, CallResult
from shared.channels.telegram import limits
from shared.channels.telegram.answers import classify
from shared.core.text import redaction
from shared.runtime.http_client import Client


class BotApi:
    """Calls with the token of one bot, which is in every address: no address is ever shown.

    Args:
        account: the account whose limits the calls count against.
        api_base: the address of the Bot API server.
    """

    def __init__(self, account: str, api_base: str, token: str) -> None:
        redaction.register(token.partition(":")[2])  # the part that is secret, however a URL shows the colon
        self._account = account
        self._calls = f"{api_base.rstrip('/')}/bot{token}"
        self.files = f"{api_base.rstrip('/')}/file/bot{token}"

    async def ask(self, method: str, body: Mapping[str, Any], client: Client) -> Any:
        """The ``result`` of a call.

        Raises:
            PostroomError: it gives none, as for ``Channel.send``.
        """
        answer = await self.answer(method, body, client)
        platform_api.expect_success(classify(answer.status, answer.payload))
        return answer.payload.get("result")

    async def call(
        self, method: str, body: Mapping[str, Any], client: Client, files: Mapping[str, OutgoingFile] | None = None
    ) -> CallResult:
        """The meaning of the answer to a call; its errors are those of ``platform_api.call``."""
        answer = await self.answer(method, body, client, files)
        return classify(answer.status, answer.payload)

    async def answer(
        self, method: str, body: Mapping[str, Any], client: Client, files: Mapping[str, OutgoingFile] | None = None
    ) -> ApiAnswer:
        """The answer to a call; *files* are uploaded by the names of their parts."""
        sent = Form({name: _field(value) for name, value in body.items()}, files) if files else dict(body)
        scopes = limits.scopes_of(self._account, method, body)
        return await platform_api.call(client, "Telegram", "POST", f"{self._calls}/{method}", sent, {}, scopes=scopes)


def _field(value: Any) -> Any:
    """A parameter as a form has it: ids and texts as text, the rest as JSON."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value
