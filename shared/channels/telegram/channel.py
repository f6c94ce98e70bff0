"""The Telegram adapter: receives webhook updates, sends and edits messages, answers presses of buttons.

A delivery is genuine when it carries our secret header. A genuine delivery never gets an error as its answer: Telegram
would redeliver it for a day, and hold back all later updates of that chat.

``updates`` parses the updates; ``api_calls`` builds the calls and interprets their answers.

Source: https://core.telegram.org/bots/api (10.3): #setwebhook (secret_token), #answercallbackquery,
#formatting-options.
"""

import hmac
import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from shared.channels import markdown, platform_api, sanitize
from shared.channels.account_settings import AccountSettings
from shared.channels.base import (
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
from shared.channels.multipart import Form
from shared.channels.platform_api import ApiAnswer, CallResult
from shared.channels.telegram import limits
from shared.channels.telegram.api_calls import BotApiCall, classify, edit_call, message_call, simplify
from shared.channels.telegram.updates import UpdateParser
from shared.core import redaction
from shared.core.errors import (
    NotFetched,
    NotPossible,
    OutcomeUnknown,
    PayloadInvalid,
    PermanentError,
    PostroomError,
    SignatureInvalid,
)
from shared.runtime.http_client import Client

SIGNATURE_HEADER = "x-telegram-bot-api-secret-token"
PART_UNITS = 3800  # Telegram's limit is 4096, in code points or in UTF-16 units
PART_HTML_BYTES = 30_000  # Telegram's limit is 32768, before parsing
ALERT_UNITS = 200  # the limit of an alert, which only the person who pressed a button sees


class TelegramSettings(AccountSettings):
    """Read from the environment: ``TELEGRAM_`` and the field's name in capitals, such as ``TELEGRAM_BOT_TOKEN``."""

    model_config = SettingsConfigDict(env_prefix="TELEGRAM_", frozen=True, extra="ignore")

    bot_token: SecretStr = Field(default=...)
    webhook_secret: SecretStr = Field(default=...)
    api_base: str = Field(default="https://api.telegram.org", pattern=r"^https?://[^/?#]+(/[^?#]*)?$")
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
    settings=(
        ManifestSetting("BOT_TOKEN", "The token that BotFather gives with a new bot.", is_secret=True),
        ManifestSetting(
            "WEBHOOK_SECRET",
            "1 to 256 characters of A-Z a-z 0-9 _ - of your choice; Telegram sends them with every update.",
            is_secret=True,
        ),
        ManifestSetting("BOT_USERNAME", "The bot's name, so that it hears its mentions in groups.", is_needed=False),
        ManifestSetting("API_BASE", "The address of a Bot API server of your own.", is_needed=False),
    ),
    steps=("Open a chat with @BotFather, send `/newbot`, and keep the token.",),
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
        token = settings.bot_token.get_secret_value()
        redaction.register(token.partition(":")[2])  # the part that is secret, however a URL shows the colon
        self._base = f"{settings.api_base.rstrip('/')}/bot{token}"

    def receive(self, request: WebhookRequest, *, now_ms: int) -> Received:
        """See ``Channel.receive``. The reply is an empty 200: Telegram could execute a JSON body as an API call."""
        given = request.headers.get(SIGNATURE_HEADER, "").encode("utf-8", "surrogatepass")
        if not hmac.compare_digest(
            given, self._secret
        ):  # as bytes: compare_digest raises TypeError for text that isn't ASCII
            raise SignatureInvalid("the X-Telegram-Bot-Api-Secret-Token header is missing or wrong")
        try:
            return Received((self._parser.parse(request.body),))
        except (ValueError, RecursionError) as error:
            raise PayloadInvalid(f"the body is not valid JSON ({type(error).__name__})") from None

    def render(self, text: str, files: Sequence[OutgoingFile] = ()) -> tuple[Part, ...]:
        """Markdown to Telegram's HTML, with the same text and the addresses in plain form. See ``Channel.render``."""
        if files:
            raise NotPossible("Postroom can't send files to Telegram yet")
        limit = markdown.ChunkLimit(PART_UNITS, PART_HTML_BYTES, _html_bytes)
        blocks = markdown.parse(sanitize.text(text.replace("\r\n", "\n")))
        chunks = (markdown.trim(runs) for runs in markdown.pack(blocks, limit))
        return tuple(Part(text=markdown.with_addresses(runs), html=to_html(runs)) for runs in chunks)

    async def send(self, part: Part, to: Outgoing, client: Client, *, now_ms: int) -> Sent:
        """Send or edit one message; retry in a simpler form where Telegram names its objection. See ``Channel.send``.

        Telegram has no idempotency key: a message whose call got no answer may have been sent. An edit can be repeated.
        """
        if to.click is not None and await self._answer_press(part, to, client):
            return Sent(None)
        call = edit_call(part, to) if to.edits else message_call(part, to)
        result = CallResult("permanent", "Telegram refuses this message in every form")
        for _ in range(5):
            result = await self._try(call, client)
            if result.outcome == "sent":
                return Sent(result.message_id or call.edits)
            simpler = simplify(call, result, part, to)
            if simpler == call:
                break
            call = simpler
        raise platform_api.error_of(result)

    async def _try(self, call: BotApiCall, client: Client) -> CallResult:
        try:
            answer = await self._call(client, call.method, call.body)
            result = classify(answer.status, answer.payload)
        except OutcomeUnknown as error:
            result = CallResult("unknown", str(error))
        return replace(result, is_repeatable=call.edits is not None)  # the same edit again makes no second message

    async def _answer_press(self, part: Part, to: Outgoing, client: Client) -> bool:
        """Answer the press of a button; whether an alert showed all of *part*. Telegram refuses late answers.

        Only the person who pressed may read a part that edits nothing. In a group it is therefore an alert or fails.
        """
        is_alert = not to.edits and not to.buttons and markdown.units(part.text) <= ALERT_UNITS
        is_secret = not to.edits and to.platform_id.startswith("-")
        if is_secret and not is_alert:
            raise PermanentError(f"an alert holds {ALERT_UNITS} characters, and in a group nobody else may read this")
        body: dict[str, Any] = {"callback_query_id": str((to.click or {}).get("callback_id"))}
        if is_alert:
            body |= {"text": part.text, "show_alert": True}
        try:
            answer = await self._call(client, "answerCallbackQuery", body)
            platform_api.expect_success(classify(answer.status, answer.payload))
        except PostroomError:
            if is_secret:
                raise
            return False  # without an answer, the button only shows a progress bar for a while
        return is_alert

    async def react(self, emoji: str | None, message_id: str, to: Outgoing, client: Client) -> None:
        """See ``Channel.react``."""
        raise NotPossible("Postroom can't react to messages on Telegram yet; nothing was done")

    async def typing(self, to: Outgoing, client: Client) -> None:
        """See ``Channel.typing``."""
        raise NotPossible("Postroom can't show on Telegram yet that an agent works")

    async def draft(self, text: str, draft_id: int, to: Outgoing, client: Client) -> None:
        """See ``Channel.draft``."""
        raise NotPossible("Postroom can't show drafts on Telegram yet")

    async def fetch(self, attachment: Mapping[str, Any], client: Client, *, limit_bytes: int) -> bytes:
        """See ``Channel.fetch``."""
        raise NotFetched("Postroom can't fetch files of Telegram yet")

    async def registration(self, client: Client) -> Registration:
        """See ``Channel.registration``."""
        raise NotPossible("Postroom can't ask Telegram yet what is registered")

    async def open_direct(self, sender_id: str, client: Client) -> str:
        """The id of a private chat is the person's id. See ``Channel.open_direct``."""
        return sender_id

    async def check_token(self, client: Client) -> None:
        """See ``Channel.check_token``. Source: #getme."""
        answer = await self._call(client, "getMe", {})
        platform_api.expect_success(classify(answer.status, answer.payload))

    async def _call(self, client: Client, method: str, body: dict[str, Any] | Form) -> ApiAnswer:
        """Every call of the Bot API, with what it counts against."""
        scopes = limits.scopes_of(self.name, method, body.fields if isinstance(body, Form) else body)
        return await platform_api.call(client, "Telegram", "POST", f"{self._base}/{method}", body, {}, scopes=scopes)


# -- rendering --------------------------------------------------------------------------------------------------------

_TAGS = {"b": "b", "i": "i", "s": "s", "code": "code", "quote": "blockquote"}


def _tags(style: markdown.Style) -> tuple[str, str]:
    name, argument = style
    if name == "link":
        return f'<a href="{html.escape(argument)}">', "</a>"
    if name == "pre":
        language = f'<code class="language-{html.escape(argument)}">' if argument else ""
        return f"<pre>{language}", "</code></pre>" if argument else "</pre>"
    return f"<{_TAGS[name]}>", f"</{_TAGS[name]}>"


def to_html(runs: Sequence[markdown.Run]) -> str:
    """Telegram HTML of styled runs; tags are closed in reverse order of opening."""
    pieces: list[str] = []
    opened: list[markdown.Style] = []
    for text, styles in [*runs, markdown.Run("")]:
        shared = 0
        while shared < min(len(opened), len(styles)) and opened[shared] == styles[shared]:
            shared += 1
        pieces += [_tags(style)[1] for style in reversed(opened[shared:])]
        pieces += [_tags(style)[0] for style in styles[shared:]]
        opened = list(styles)
        pieces.append(html.escape(text, quote=False))
    return "".join(pieces)


def _html_bytes(run: markdown.Run) -> int:
    return len(to_html([run]).encode("utf-8", "surrogatepass"))
