"""The calls of Discord's API, apart from those that send a message.

Source: https://docs.discord.com/developers/resources/message#create-reaction,
https://docs.discord.com/developers/resources/channel#trigger-typing-indicator,
https://docs.discord.com/developers/resources/application#get-current-application.
"""

import re
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from shared import __version__
from shared.channels import downloads, platform_api, sanitize
from shared.channels.base import Outgoing, Registration
from shared.channels.discord import limits, read_back, routes
from shared.channels.discord.api_calls import RACE_MS, classify
from shared.channels.discord.objects import dicts
from shared.channels.multipart import Form
from shared.channels.platform_api import ApiAnswer, CallResult
from shared.core.accounts import prefix_of
from shared.core.errors import OutcomeUnknown, PermanentError, RetryableError
from shared.runtime.http_client import Client

USER_AGENT = f"DiscordBot (https://postroom.example, {__version__})"  # Cloudflare may refuse a call without it
FILE_ORIGINS = frozenset({"https://cdn.discordapp.com", "https://media.discordapp.net"})
WEBHOOK_EVENTS = "webhook events, which Discord has switched off"

_REAL_HOST = "discord.com"
_EVENTS_SWITCHED_OFF = 3
_HAS_A_THREAD = 160004
_PUBLIC_THREAD = 11
_TOPIC_NAME = 100  # characters
_CUSTOM = re.compile(r"custom:([0-9]{1,20})")


class DiscordApi(msgspec.Struct, frozen=True):
    """The API as one bot calls it.

    Attributes:
        account: the account's name, as in the ``channel`` columns.
        base: the address of the API, without a slash at its end.
    """

    account: str
    base: str
    application_id: str
    bot_token: str

    async def call(
        self,
        client: Client,
        method: str,
        url: str,
        body: dict[str, Any] | list[Any] | Form | None,
        *,
        is_token: bool = False,
    ) -> ApiAnswer:
        """Every call of the API, with what it counts against; *is_token*: the path has an interaction's token."""
        headers = {"User-Agent": USER_AGENT}
        if not is_token:
            headers["Authorization"] = f"Bot {self.bot_token}"
        scopes = limits.scopes_of(self.account, method, url, is_token=is_token)
        return await platform_api.call(client, "Discord", method, url, body, headers, scopes=scopes)

    async def do(
        self,
        client: Client,
        method: str,
        url: str,
        body: dict[str, Any] | list[Any] | None = None,
        *,
        is_token: bool = False,
    ) -> ApiAnswer:
        """A call that may be repeated without harm.

        Raises:
            RateLimited, NotSent, TokenRefused, PlaceGone, PermanentError: as for ``Channel.send``.
            RetryableError: another attempt may succeed.
        """
        try:
            answer = await self.call(client, method, url, body, is_token=is_token)
        except OutcomeUnknown as error:
            raise RetryableError(str(error)) from None
        result = classify(answer.status, answer.payload, answer.headers)
        if result.outcome == "unknown":
            raise RetryableError(result.reason)
        platform_api.expect_success(replace(result, is_repeatable=True))
        return answer

    async def do_list(
        self, client: Client, method: str, url: str, body: list[Any] | None = None
    ) -> list[dict[str, Any]]:
        """As ``do``, for a call whose body and answer are lists of objects."""
        answer = await self.do(client, method, url, body)
        return dicts(answer.items)

    async def messages_since(self, client: Client, to: Outgoing, since_ms: int) -> list[dict[str, Any]] | None:
        """The messages of the channel of *to* since that instant; None: there are too many to read."""
        found: list[dict[str, Any]] = []
        after = read_back.snowflake_before(since_ms)
        for _ in range(read_back.PAGES):
            url = f"{routes.channel_url(to, self.base)}/messages?after={after}&limit={read_back.PAGE}"
            page = await self.do_list(client, "GET", url)
            found += page
            if len(page) < read_back.PAGE:
                return found
            after = max((str(message.get("id", "0")) for message in page), key=int)
        return None

    def webhook(self, token: str) -> str:
        """The address of an interaction's messages, which is secret."""
        return f"{self.base}/webhooks/{self.application_id}/{quote(token, safe='')}"

    async def react(self, emoji: str | None, message_id: str, to: Outgoing, client: Client) -> None:
        """See ``Channel.react``."""
        if message_id == to.context.get("interaction_id"):
            raise PermanentError("a command of Discord is no message: nobody can react to it")
        url = routes.message_url(message_id, to, self.base)
        if emoji is not None:
            await self.do(client, "PUT", f"{url}/reactions/{_in_path(emoji)}/@me")
            return
        found = await self.do(client, "GET", url)
        for ours in _ours(found.payload):
            await self.do(client, "DELETE", f"{url}/reactions/{ours}/@me")

    async def make_thread(self, to: Outgoing, client: Client) -> None:
        """Make the thread in which a message is answered, where there is none yet. The thread has the message's id.

        Source: https://docs.discord.com/developers/resources/channel#start-thread-from-message.
        """
        name = to.context.get("makes_thread")
        if not name or to.thread_id is None:
            return
        url = f"{routes.message_url(to.thread_id, to, self.base)}/threads"
        try:
            answer = await self.call(client, "POST", url, {"name": name, "auto_archive_duration": 1440})
        except OutcomeUnknown as error:
            raise RetryableError(str(error)) from None
        if answer.payload.get("code") == _HAS_A_THREAD:
            return
        result = result_of(answer)
        if result.outcome == "unknown":
            raise RetryableError(result.reason)
        platform_api.expect_success(result)

    async def make_topic(self, name: str, to: Outgoing, client: Client) -> str:
        """See ``Channel.make_topic``.

        Source: https://docs.discord.com/developers/resources/channel#start-thread-without-message.
        """
        url = f"{self.base}/channels/{quote(to.platform_id, safe='')}/threads"
        wanted = {"name": sanitize.name(name)[:_TOPIC_NAME], "type": _PUBLIC_THREAD, "auto_archive_duration": 1440}
        answer = await self.call(client, "POST", url, wanted)
        platform_api.expect_success(result_of(answer))
        number = answer.payload.get("id")
        if not isinstance(number, str):
            raise OutcomeUnknown("Discord did not return the id of the thread")
        return number

    async def end_wait(self, webhook: str, client: Client, *, age_ms: int) -> None:
        """See ``Channel.end_wait``. What is gone already is as it should be.

        Source: https://docs.discord.com/developers/interactions/receiving-and-responding#delete-original-interaction-response.
        """
        try:
            answer = await self.call(client, "DELETE", f"{webhook}/messages/@original", None, is_token=True)
        except OutcomeUnknown as error:
            raise RetryableError(str(error)) from None
        result = result_of(answer)
        if result.step and age_ms < RACE_MS:
            raise RetryableError("Discord may not have processed our answer to the interaction yet", RACE_MS)
        if result.outcome == "unknown":
            raise RetryableError(result.reason)
        if not result.step:
            platform_api.expect_success(result)

    async def typing(self, to: Outgoing, client: Client) -> None:
        """See ``Channel.typing``. Nothing is sent where Discord shows "thinking", or the bot is no member."""
        if "sealed_token" not in to.context and to.context.get("bot_is_there", True):
            await self.do(client, "POST", f"{routes.channel_url(to, self.base)}/typing")

    async def open_direct(self, sender_id: str, client: Client) -> str:
        """The channel of the bot's direct messages with a person. See ``Channel.open_direct``.

        Source: https://docs.discord.com/developers/resources/user#create-dm (the same channel every time).
        """
        answer = await self.do(client, "POST", f"{self.base}/users/@me/channels", {"recipient_id": sender_id})
        number = answer.payload.get("id")
        if not isinstance(number, str):
            raise RetryableError("Discord did not return the id of the direct channel")
        return number

    async def registration(self, client: Client, ours: str = "") -> Registration:
        """See ``Channel.registration``.

        Args:
            ours: our own address; empty: it is not known.
        """
        found = (await self.do(client, "GET", f"{self.base}/applications/@me")).payload
        url = found.get("interactions_endpoint_url")
        error = mend = None
        if found.get("id") != self.application_id:
            name = f"{prefix_of(self.account)}APPLICATION_ID"
            error = f"the bot's token is of application {found.get('id')}, and {name} is {self.application_id}"
            mend = f"set {name}={found.get('id')}, and start Postroom again"
        is_ours = None if error is None and url and not ours else error is None and url == ours
        return Registration(
            is_ours,
            url if isinstance(url, str) else None,
            missing=(WEBHOOK_EVENTS,) if found.get("event_webhooks_status") == _EVENTS_SWITCHED_OFF else (),
            last_error=error,
            mend=mend,
            ours=ours or None,
        )

    def origins(self) -> frozenset[str]:
        """The hosts that files come from; a fake Discord serves its own."""
        own = downloads.origin_of(self.base)
        is_real = urlsplit(self.base).hostname == _REAL_HOST
        return FILE_ORIGINS if is_real or own is None else FILE_ORIGINS | {own}


def result_of(answer: ApiAnswer) -> CallResult:
    """The meaning of an answer to a message call."""
    return classify(answer.status, answer.payload, answer.headers)


def _in_path(emoji: str) -> str:
    """The emoji as a part of a path; of a custom one only the id counts, and any name will do."""
    custom = _CUSTOM.fullmatch(emoji)
    return quote(f"_:{custom[1]}" if custom else emoji, safe="")


def _ours(message: dict[str, Any]) -> list[str]:
    """The reactions of ours to a message, as parts of a path."""
    found = message.get("reactions")
    ours = [each.get("emoji") for each in found if isinstance(each, dict) and each.get("me")] if found else []
    named = [each for each in ours if isinstance(each, dict) and each.get("name")]
    return [quote(f"{each['name']}:{each['id']}" if each.get("id") else str(each["name"]), safe="") for each in named]
