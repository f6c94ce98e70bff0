"""The Telegram adapter: receives webhook updates, sends and edits messages, answers presses of buttons.

A delivery is genuine when it carries our secret header. A genuine delivery never gets an error as its answer: Telegram
would redeliver it for a day, and hold back all later updates of that chat.

``updates`` parses the updates; ``api_calls`` builds the calls and interprets their answers.

Source: https://core.telegram.org/bots/api (10.3): #setwebhook (secret_token), #answercallbackquery,
#formatting-options.
"""

import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from pydantic import Field, SecretStr, field_validator

from shared.channels import downloads, platform_api, sanitize
from shared.channels.account_settings import AccountSettings
from shared.channels.base import (
    Event,
    Evidence,
    Outgoing,
    OutgoingFile,
    Part,
    Received,
    Registration,
    Sent,
    WebhookReply,
    WebhookRequest,
)
from shared.channels.manifest import Manifest, ManifestSetting
from shared.channels.markdown.runs import units
from shared.channels.platform_api import CallResult
from shared.channels.telegram import command_menu, fetching, reactions, rendering, webhooks
from shared.channels.telegram.api_calls import BotApiCall, Shape, call_of, number, simpler, topic
from shared.channels.telegram.bot_api import BotApi
from shared.channels.telegram.updates import UpdateParser
from shared.core import content
from shared.core.errors import (
    NotPossible,
    OutcomeUnknown,
    PayloadInvalid,
    PermanentError,
    PostroomError,
    RetryableError,
    SignatureInvalid,
)
from shared.runtime.http_client import Client

SIGNATURE_HEADER = "x-telegram-bot-api-secret-token"
TOPIC_NAME = 128  # characters
ALERT_UNITS = 200  # the limit of an alert, which only the person who pressed a button sees


class TelegramSettings(AccountSettings):
    """Read from the environment: ``TELEGRAM_`` and the field's name in capitals, such as ``TELEGRAM_BOT_TOKEN``."""

    env_prefix = "TELEGRAM_"

    bot_token: SecretStr = Field(default=...)
    webhook_secret: SecretStr = Field(default=...)
    api_base: str = Field(default="https://api.telegram.org", pattern=r"^https?://[^/?#]+(/[^?#]*)?$")
    webhook_url: str = Field(default="", pattern=r"^(https?://[^/?#]+/[^?#]*)?$")  # as ``connect`` registers it
    bot_username: str = ""  # without it, the bot does not notice mentions by name in groups

    @field_validator("bot_token")
    @classmethod
    def _token(cls, value: SecretStr) -> SecretStr:
        if not re.fullmatch(r"[0-9]{1,20}:[A-Za-z0-9_-]+", value.get_secret_value()):
            raise ValueError("should be the token from BotFather: digits, a colon, letters")
        return value

    @field_validator("webhook_secret")
    @classmethod
    def _secret(cls, value: SecretStr) -> SecretStr:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,256}", value.get_secret_value()):
            raise ValueError("should be 1 to 256 characters of A-Z a-z 0-9 _ -, the same as in setWebhook")
        return value


MANIFEST = Manifest(
    platform="telegram",
    title="Telegram",
    username_setting="BOT_USERNAME",
    settings=(
        ManifestSetting("BOT_TOKEN", "The token that BotFather gives with a new bot.", is_secret=True),
        ManifestSetting(
            "WEBHOOK_SECRET",
            "1 to 256 characters of A-Z a-z 0-9 _ - of your choice; Telegram sends them with every update.",
            is_secret=True,
        ),
        ManifestSetting("BOT_USERNAME", "The bot's name, so that it hears its mentions in groups.", is_needed=False),
        ManifestSetting(
            "WEBHOOK_URL",
            "The address that Telegram calls, such as `https://bot.example.com/webhooks/telegram`.",
            is_needed=False,
        ),
        ManifestSetting("API_BASE", "The address of a Bot API server of your own.", is_needed=False),
    ),
    steps=(
        "Open a chat with @BotFather, send `/newbot`, and keep the token.",
        "Make up a secret, such as with `openssl rand -hex 24`.",
        "Give ingest, dispatch, deliver and sweep the settings below, and start them ([on one host](../first-bot.md)).",
        "Let an HTTPS proxy with a public name serve ingest, on port 443, 80, 88 or 8443.",
        "Connect the bot: it is safe to repeat, and a bot of another program stays with it.",
        "Make yourself the owner: `emulator pair`, and send the `/start` line that it prints to the bot.",
        "Write to the bot.",
        "For groups where the bot should read everything: @BotFather, `/setprivacy`; then add it to the group again.",
    ),
    connect="emulator channel telegram connect --url https://bot.example.com",
)


def channel(account: str = "telegram") -> "TelegramChannel":
    """The adapter of the account, configured from the environment."""
    return TelegramChannel(TelegramSettings.of(account), account)


class TelegramChannel:
    """One bot."""

    platform = "telegram"
    unreadable = WebhookReply()

    def __init__(self, settings: TelegramSettings, name: str = "telegram") -> None:
        self.name = name
        self._secret = settings.webhook_secret.get_secret_value().encode()
        self._parser = UpdateParser(int(settings.bot_token.get_secret_value().partition(":")[0]), settings.bot_username)
        self.api = BotApi(name, settings.api_base, settings.bot_token.get_secret_value())
        self.webhook_url = settings.webhook_url
        self.bot_username = settings.bot_username.removeprefix("@")
        self._api_base = settings.api_base

    def receive(self, request: WebhookRequest, *, now_ms: int) -> Received:
        """See ``Channel.receive``. The reply is an empty 200: Telegram executes a JSON body as an API call.

        Only the reply to a press that nothing of ours answers is such a call: the button would wait for its answer.
        """
        given = request.headers.get(SIGNATURE_HEADER, "").encode("utf-8", "surrogatepass")
        if not hmac.compare_digest(
            given, self._secret
        ):  # as bytes: compare_digest raises TypeError for text that isn't ASCII
            raise SignatureInvalid("the X-Telegram-Bot-Api-Secret-Token header is missing or wrong")
        try:
            event = self._parser.parse(request.body)
            return Received((event,), not_taken=_unanswered(event))
        except (ValueError, RecursionError) as error:
            raise PayloadInvalid(f"the body is not valid JSON ({type(error).__name__})") from None

    def render(self, text: str, files: Sequence[OutgoingFile] = ()) -> tuple[Part, ...]:
        """Markdown to Telegram's HTML, with the same text and the addresses in plain form. See ``Channel.render``."""
        return tuple(rendering.parts_of(text, files))

    async def send(self, part: Part, to: Outgoing, client: Client, *, now_ms: int) -> Sent:
        """Send or edit one message; retry in a simpler form where Telegram names its objection. See ``Channel.send``.

        Telegram has no idempotency key: a message whose call got no answer may have been sent. An edit can be repeated.
        """
        if to.click is not None and await self._answer_press(part, to, client):
            return Sent(None)
        shape = Shape()
        while True:
            call = call_of(part, to, shape)
            result = await self._try(call, client)
            if result.outcome == "sent":
                return Sent(result.message_id or call.edits, result.also)
            plainer = simpler(shape, result.step)
            if plainer == shape or call_of(part, to, plainer) == call:
                raise platform_api.error_of(_of_files(result) if part.files else result)
            shape = plainer

    async def _try(self, call: BotApiCall, client: Client) -> CallResult:
        try:
            result = await self.api.call(call.method, call.body, client, call.files)
        except OutcomeUnknown as error:
            result = CallResult("unknown", str(error))
        return replace(result, is_repeatable=call.edits is not None)  # the same edit again makes no second message

    async def _answer_press(self, part: Part, to: Outgoing, client: Client) -> bool:
        """Answer the press of a button; whether an alert showed all of *part*. Telegram refuses late answers.

        Only the person who pressed may read a part that edits nothing. In a group it is therefore an alert or fails.
        """
        is_alert = not (to.edits or to.buttons or part.files) and units(part.text) <= ALERT_UNITS
        is_secret = not to.edits and to.platform_id.startswith("-")
        if is_secret and not is_alert:
            raise PermanentError(f"an alert takes {ALERT_UNITS} characters, and in a group nobody else may read this")
        body: dict[str, Any] = {"callback_query_id": str((to.click or {}).get("callback_id"))}
        if is_alert:
            body |= {"text": part.text, "show_alert": True}
        try:
            platform_api.expect_success(await self.api.call("answerCallbackQuery", body, client))
        except PostroomError:
            if is_secret:
                raise
            return False  # without an answer, the button only shows a progress bar for a while
        return is_alert

    async def find_sent(self, part: Part, to: Outgoing, client: Client, *, tried_from: int, now_ms: int) -> Evidence:
        """Telegram shows a bot nothing of what it sent. See ``Channel.find_sent``."""
        return Evidence("none")

    async def react(self, emoji: str | None, message_id: str, to: Outgoing, client: Client) -> None:
        """Set the nearest reaction that Telegram and the chat allow. See ``Channel.react``.

        Source: #setmessagereaction, #chatfullinfo (``available_reactions``).
        """
        wanted = None if emoji is None else reactions.nearest(emoji)
        result = await self._react(wanted, message_id, to, client)
        if wanted is not None and "reaction_invalid" in result.reason.lower():
            allowed = reactions.allowed_in(await self.api.ask("getChat", {"chat_id": number(to.platform_id)}, client))
            result = await self._react(reactions.nearest(wanted, allowed), message_id, to, client)
        platform_api.expect_success(result)

    async def _react(self, emoji: str | None, message_id: str, to: Outgoing, client: Client) -> CallResult:
        shown = [] if emoji is None else [reactions.as_type(emoji)]
        body = {"chat_id": number(to.platform_id), "message_id": number(message_id), "reaction": shown}
        try:
            result = await self.api.call("setMessageReaction", body, client)
        except OutcomeUnknown as error:
            result = CallResult("unknown", str(error))
        outcome = "permanent" if result.outcome == "give_way" else result.outcome
        return replace(result, outcome=outcome, is_repeatable=True)

    async def remove(self, message_id: str, to: Outgoing, client: Client) -> None:
        """See ``Channel.remove``. Source: #deletemessage (within 48 hours)."""
        body = {"chat_id": number(to.platform_id), "message_id": number(message_id)}
        try:
            result = await self.api.call("deleteMessage", body, client)
        except OutcomeUnknown as error:
            result = CallResult("unknown", str(error))
        platform_api.expect_success(replace(result, is_repeatable=True))

    async def make_topic(self, name: str, to: Outgoing, client: Client) -> str:
        """A topic of a forum, or of a direct chat where the bot has topics. See ``Channel.make_topic``.

        Source: #createforumtopic.
        """
        body = {"chat_id": number(to.platform_id), "name": sanitize.name(name)[:TOPIC_NAME]}
        made = await self.api.ask("createForumTopic", body, client)
        thread = made.get("message_thread_id") if isinstance(made, dict) else None
        if not isinstance(thread, int):
            raise OutcomeUnknown("Telegram did not return the id of the topic")
        return str(thread)

    async def end_wait(self, to: Outgoing, client: Client, *, now_ms: int) -> None:
        """Telegram shows no wait by itself. See ``Channel.end_wait``."""
        raise NotPossible("Telegram shows nothing that has to be removed")

    async def typing(self, to: Outgoing, client: Client) -> None:
        """Telegram shows it for 5 seconds. See ``Channel.typing``. Source: #sendchataction."""
        if (to.thread_id or "").startswith("dm:") or content.receiver(to.context) is not None:
            raise NotPossible("Telegram can't show there that an agent works")
        body = {"chat_id": number(to.platform_id), **topic(to.thread_id), "action": "typing"}
        platform_api.expect_success(await self.api.call("sendChatAction", body, client))

    async def draft(self, text: str, draft_id: int, to: Outgoing, client: Client) -> None:
        """The preview vanishes after 30 seconds without another. See ``Channel.draft``. Source: #sendmessagedraft."""
        if to.platform_id.startswith("-"):
            raise NotPossible("Telegram shows drafts in direct chats only")
        body: dict[str, Any] = {"chat_id": number(to.platform_id), "draft_id": draft_id, "can_stop": True}
        body |= topic(to.thread_id)
        part = rendering.draft_of(text) or Part("")
        marked_up = {"text": part.html, "parse_mode": "HTML"} if part.html else {"text": part.text}
        result = await self.api.call("sendMessageDraft", body | marked_up, client)
        if result.step == "plain":
            result = await self.api.call("sendMessageDraft", body | {"text": part.text}, client)
        platform_api.expect_success(result)

    async def fetch(self, attachment: Mapping[str, Any], client: Client, *, limit_bytes: int) -> bytes:
        """See ``Channel.fetch``. The address holds the token, so no error shows it. Source: #getfile."""
        limit_bytes = min(limit_bytes, fetching.DOWNLOAD_BYTES)
        file_id = fetching.id_of(attachment, limit_bytes)
        found = fetching.file_of(await self.api.answer("getFile", {"file_id": file_id}, client), limit_bytes)
        url = f"{self.api.files}/{found.path}"
        origin = downloads.origin_of(self.api.files) or ""
        return await downloads.download(
            client, "Telegram", url, origins={origin}, limit_bytes=limit_bytes, promised_bytes=found.size
        )

    async def registration(self, client: Client) -> Registration:
        """What ``getWebhookInfo`` says. See ``Channel.registration``."""
        return webhooks.registration_of(await self.api.ask("getWebhookInfo", {}, client), self.webhook_url)

    async def open_direct(self, sender_id: str, client: Client) -> str:
        """The id of a private chat is the person's id. See ``Channel.open_direct``."""
        return sender_id

    async def check_token(self, client: Client) -> None:
        """See ``Channel.check_token``. Source: #getme."""
        await self.api.ask("getMe", {}, client)

    async def check_sending(self, client: Client) -> None:
        """See ``Channel.check_sending``: Telegram refuses an empty text to no chat. Source: #sendmessage."""
        result = await self.api.call("sendMessage", {"chat_id": 0, "text": ""}, client)
        if result.outcome in ("down", "unknown"):
            platform_api.expect_success(result)

    async def take_bot(
        self, bot_id: str, account: str, client: Client, *, secret: str, menu: Mapping[str, str]
    ) -> Mapping[str, str]:
        """See ``BotManager.take_bot``. The webhook of the new bot is beside our own.

        Source: #getmanagedbottoken.
        """
        token = str(await self.api.ask("getManagedBotToken", {"user_id": int(bot_id)}, client))
        url = await self._beside_our_own(account, client)
        made = TelegramSettings(bot_token=SecretStr(token), webhook_secret=SecretStr(secret), api_base=self._api_base)
        bot = TelegramChannel(made, account)
        me = await bot.api.ask("getMe", {}, client)
        await bot.register(url, client)
        await command_menu.offer(bot.api, client, menu, await command_menu.registered(bot.api, client))
        username = str(me.get("username") or "") if isinstance(me, dict) else ""
        return {"bot_token": token, "webhook_secret": secret, "webhook_url": url, "bot_username": username}

    async def _beside_our_own(self, account: str, client: Client) -> str:
        """The webhook of *account*: beside our own, which is set or, without the setting, registered at Telegram."""
        own = self.webhook_url
        if not own:
            found = await self.api.ask("getWebhookInfo", {}, client)
            own = str(found.get("url") or "") if isinstance(found, dict) else ""
        beside, _, name = own.rpartition("/")
        if name != self.name:
            raise RetryableError(f"our own webhook is not at .../webhooks/{self.name}, so there is none for {account}")
        return f"{beside}/{account}"

    async def register(self, url: str, client: Client) -> None:
        """Let Telegram send all updates to *url*, with our secret. Safe to call twice: it names every parameter."""
        await self.api.ask("setWebhook", webhooks.parameters(url, self._secret.decode()), client)


def _unanswered(event: Event) -> WebhookReply | None:
    """The reply to a press that no card and no question takes, such as one of an old button; else None."""
    press = event.context.get("callback_id")
    if not isinstance(press, str):
        return None
    call = {"method": "answerCallbackQuery", "callback_query_id": press}
    return WebhookReply(body=msgspec.json.encode(call), content_type="application/json")


def _of_files(result: CallResult) -> CallResult:
    """What Telegram refuses for good may be the files; the text alone may be sent."""
    return replace(result, outcome="files_refused") if result.outcome in ("permanent", "give_way") else result
