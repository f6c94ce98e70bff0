"""The Discord adapter: receives signed interactions and webhook events, and answers with the interaction's messages.

The adapter verifies the raw bytes of every request first; Discord regularly sends forged requests to check that the
endpoint refuses them. It answers what asks an agent with "thinking" at once and edits that message later; it refuses
unsupported commands immediately. The token that allows the edit lives for 15 minutes. It is stored encrypted, with a
key derived from the bot's token. What the optional Gateway relay forwards is signed with a secret of its own, and gets
no such answer.

``interactions`` and ``gateway_frames`` parse the requests; ``api_calls`` interprets the answers to our calls.

Source: https://docs.discord.com/developers/interactions/receiving-and-responding,
https://docs.discord.com/developers/interactions/overview#validating-security-request-headers.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import msgspec
from nacl.exceptions import BadSignatureError, CryptoError

from shared.channels import downloads, platform_api, standard_webhooks
from shared.channels.base import (
    Button,
    Event,
    Evidence,
    Kind,
    Outgoing,
    OutgoingFile,
    Part,
    Received,
    Registration,
    Sent,
    WebhookReply,
    WebhookRequest,
)
from shared.channels.discord import forms, gateway_frames, immediate, interactions, parts, read_back, routes
from shared.channels.discord.api import DiscordApi, result_of
from shared.channels.discord.api_calls import RACE_MS, components, nonce, poll, race_wait_ms
from shared.channels.discord.immediate import NO_PINGS
from shared.channels.discord.interactions import DiscordInteraction
from shared.channels.discord.routes import SendRoute
from shared.channels.discord.settings import MANIFEST, DiscordSettings
from shared.channels.platform_api import CallResult
from shared.core import chance
from shared.core.errors import (
    NotFetched,
    NotPossible,
    OutcomeUnknown,
    PayloadInvalid,
    PermanentError,
    RetryableError,
    SignatureInvalid,
)
from shared.core.text import half_characters, redaction
from shared.runtime.http_client import Client

if TYPE_CHECKING:
    from nacl.secret import SecretBox
    from nacl.signing import VerifyKey

__all__ = ["MANIFEST", "DiscordChannel", "channel"]

FRESH_MS = 5 * 60_000  # the largest distance of a signed timestamp from now; an older capture can't be replayed
TOKEN_LIFE_MS = 14 * 60_000 + 30_000  # an interaction token lives for 15 minutes
EPHEMERAL = 64
SUPPRESS_EMBEDS = 4  # Discord fetches no link of the message; an address can carry what an agent knows


def channel(account: str = "discord") -> "DiscordChannel":
    """The adapter of the account, configured from the environment."""
    return DiscordChannel(DiscordSettings.of(account), account)


class DiscordChannel:
    """One application and its bot."""

    platform = "discord"
    unreadable = WebhookReply()

    def __init__(self, settings: DiscordSettings, name: str = "discord") -> None:
        self.name = name
        self._public_key = bytes.fromhex(settings.public_key)
        self._application_id = settings.application_id
        bot_token = settings.bot_token.get_secret_value()
        self.api = DiscordApi(name, settings.api_base.rstrip("/"), settings.application_id, bot_token)
        self._relay_secret = settings.relay_secret.get_secret_value() if settings.relay_secret else None
        self._bot_ids = _ids_of_bot(settings)
        self.webhook_url = settings.webhook_url
        self._makes_threads = settings.threads
        self._has_reply_button = settings.reply_button
        self._flags = 0 if settings.link_previews else SUPPRESS_EMBEDS
        self._seal = hashlib.blake2b(bot_token.encode(), digest_size=32, person=b"postroom-token").digest()

    @cached_property
    def _key(self) -> "VerifyKey":
        from nacl.signing import VerifyKey  # libsodium takes 1.4 MB, and not every process verifies or seals something

        return VerifyKey(self._public_key)

    @cached_property
    def _box(self) -> "SecretBox":
        from nacl.secret import SecretBox  # as above

        return SecretBox(self._seal)

    # -- in ---------------------------------------------------------------------------------------------------------

    def receive(self, request: WebhookRequest, *, now_ms: int) -> Received:
        """See ``Channel.receive``. The person sees the reply until the answer arrives."""
        parse: Callable[[Any], Received]
        if "webhook-signature" in request.headers:
            parse = partial(self._relayed, webhook_id=self._verify_relay(request, now_ms))
        else:
            self._verify(request, now_ms)
            parse = partial(self._received, body=request.body)
        try:
            return parse(msgspec.json.decode(half_characters.mend_json(request.body)))
        except (ValueError, RecursionError) as error:
            raise PayloadInvalid(f"the body is not valid JSON ({type(error).__name__})") from None

    def _verify_relay(self, request: WebhookRequest, now_ms: int) -> str:
        """The id of a request of the relay."""
        if self._relay_secret is None:
            raise SignatureInvalid("a relay sent it, and DISCORD_RELAY_SECRET is not set")
        return standard_webhooks.verify(self._relay_secret, request.headers, request.body, now_ms=now_ms)

    def _verify(self, request: WebhookRequest, now_ms: int) -> None:
        signature = request.headers.get("x-signature-ed25519", "")
        timestamp = request.headers.get("x-signature-timestamp", "")
        if not re.fullmatch(r"[0-9a-fA-F]{128}", signature) or not re.fullmatch(r"[0-9]{1,15}", timestamp):
            raise SignatureInvalid("the X-Signature-Ed25519 or X-Signature-Timestamp header is missing or malformed")
        try:
            self._key.verify(timestamp.encode() + request.body, bytes.fromhex(signature))
        except (BadSignatureError, ValueError):
            raise SignatureInvalid("the signature does not match: check DISCORD_PUBLIC_KEY") from None
        if abs(now_ms - int(timestamp) * 1000) > FRESH_MS:
            raise SignatureInvalid(
                "the timestamp is more than 5 minutes from now: a replayed request, or a wrong clock on this host"
            )

    def _relayed(self, payload: Any, webhook_id: str) -> Received:
        match payload:
            case {"op": 0, "t": name, "d": data}:
                parent = payload.get("x_parent_id")
                event = gateway_frames.event_of(name, data, parent, webhook_id, self._bot_ids)
                event = gateway_frames.in_own_thread(event) if self._makes_threads else event
                return Received((replace(event, is_evidence=False),))
        raise PayloadInvalid("the body is no frame of Discord's Gateway")

    def _received(self, payload: Any, body: bytes) -> Received:
        match payload:
            case {"event": {"type": str(name)} as event}:
                found = interactions.webhook_event(name, event, interactions.digest(body))
                return Received((replace(found, is_evidence=False),), WebhookReply(204))  # it has an address of its own
            case {"type": 0}:
                return Received((), WebhookReply(204))
            case {"type": 1}:
                return Received((), immediate.PONG)
            case {"id": str(key), "type": int(number)} if number in _KINDS:
                return self._interaction(key, _KINDS[number], payload)
            case {"op": int(), "t": _}:  # signed by Discord, which sends no frames to a webhook
                return Received((Event("ignore", interactions.digest(body), reason="relay"),))
        raise PayloadInvalid("the body is neither an interaction nor a webhook event")

    def _interaction(self, key: str, kind: Kind, payload: dict[str, Any]) -> Received:
        if payload.get("application_id") not in (None, self._application_id):
            return Received((Event("ignore", key, reason="other_application"),), immediate.of_kind("other_application"))
        try:
            event = self._event(kind, msgspec.convert(payload, DiscordInteraction))
        except msgspec.ValidationError:
            event = Event("ignore", key, reason="malformed")
        if event.asks_for_a_turn:
            late = immediate.NOT_STORED
            return Received((event,), immediate.THINKING, not_taken=immediate.NOT_TAKEN, too_late=late)
        if event.reason == interactions.FORM:
            return Received((event,), immediate.form(_form_of(event, payload)), is_answered=True)
        if event.kind == "autocomplete":
            return Received((event,), immediate.choices(()), suggest=immediate.choices)
        return Received((event,), immediate.of_kind(event.kind), too_late=immediate.UNSURE)

    def _event(self, kind: Kind, interaction: DiscordInteraction) -> Event:
        event = interactions.event_of(kind, interaction, self._bot_ids)
        if event.kind in ("ignore", "autocomplete") or event.reason == interactions.FORM:
            return event
        return replace(event, context=event.context | self._answer_context(interaction))

    def _answer_context(self, interaction: DiscordInteraction) -> dict[str, Any]:
        """What ``send`` needs to answer this interaction, also after its token has expired."""
        return {
            "interaction_id": interaction.id,
            "application_id": self._application_id,
            "sealed_token": self.seal(interaction.token),
            "guild_id": interaction.guild_id,
            "bot_is_there": interaction.bot_is_there,
        }

    def seal(self, token: str) -> str:
        """Encrypt *token* with a key derived from the bot's token."""
        return base64.b64encode(self._box.encrypt(token.encode(), chance.token_bytes(self._box.NONCE_SIZE))).decode()

    def unseal(self, sealed: object) -> str | None:
        """The decrypted token; None if there is none, or if the bot's token has changed since."""
        if not sealed:
            return None
        try:
            token = self._box.decrypt(base64.b64decode(str(sealed), validate=True)).decode()
        except (CryptoError, ValueError):
            return None
        redaction.register_brief(token)
        return token

    # -- out --------------------------------------------------------------------------------------------------------

    def render(self, text: str, files: Sequence[OutgoingFile] = ()) -> tuple[Part, ...]:
        """See ``Channel.render``."""
        return parts.render(text, files)

    async def send(self, part: Part, to: Outgoing, client: Client, *, now_ms: int) -> Sent:
        """Send with the interaction's token while it lives, then as the bot. See ``Channel.send``."""
        age_ms = now_ms - to.asked_at_ms
        webhook = self._webhook(to, now_ms=now_ms)
        open_routes = routes.every(to, base=self.api.base, webhook=webhook)
        route = open_routes.pop(routes.best(to, has_token=webhook is not None), None)
        result = routes.expired(to)
        if route is not None and not route.is_token and not to.edits and to.is_first:
            await self.api.make_thread(to, client)
        while route:
            result = await self._try(route, part, to, client)
            if result.outcome == "sent":
                return Sent(result.message_id)
            if result.step in ("expired", "gone") and route.is_token and age_ms < RACE_MS:
                raise RetryableError(
                    f"{result.reason}; Discord may not have processed our answer to the interaction yet",
                    race_wait_ms(age_ms),
                )
            names = routes.FALLBACKS.get(result.step, ())
            route = next((open_routes.pop(name) for name in names if name in open_routes), None)
            if route is None and result.step == "expired":
                result = routes.expired(to)
        raise platform_api.error_of(result)

    def _webhook(self, to: Outgoing, *, now_ms: int) -> str | None:
        """The address that the interaction's token opens; None without one, or where its time is over."""
        facts = to.context if to.click is None else to.click
        is_alive = now_ms - to.asked_at_ms < TOKEN_LIFE_MS
        token = self.unseal(facts.get("sealed_token")) if is_alive else None
        return self.api.webhook(token) if token else None

    async def _try(self, route: SendRoute, part: Part, to: Outgoing, client: Client) -> CallResult:
        fields: dict[str, Any] = {"allowed_mentions": NO_PINGS}
        if to.poll is not None:
            fields["poll"] = poll(to.poll)
        buttons = to.buttons or self._reply_button(to)
        if buttons or to.edits:  # an edit with an empty list removes the buttons
            fields["components"] = components(buttons)
        if not route.is_token and route.method == "POST":
            fields |= {"nonce": nonce(to), "enforce_nonce": True}
            if routes.can_quote(to):
                fields["message_reference"] = {"message_id": to.reply_to, "fail_if_not_exists": False}
        if route.method == "POST" or not to.edits:  # an edit leaves the flags as they are
            is_private = route.is_token and to.click is not None
            fields["flags"] = self._flags | (EPHEMERAL if is_private else 0)
        try:
            body = parts.body(part, fields)
            answer = await self.api.call(client, route.method, route.url, body, is_token=route.is_token)
            result = result_of(answer)
        except OutcomeUnknown as error:
            result = CallResult("unknown", str(error))
        return replace(result, is_repeatable=route.is_repeatable)

    async def find_sent(self, part: Part, to: Outgoing, client: Client, *, tried_from: int, now_ms: int) -> Evidence:
        """Within minutes by the nonce, then by what stands in the channel. See ``Channel.find_sent``.

        While the token lives, the first answer to an interaction is written again in the place of the first one.
        """
        webhook = self._webhook(to, now_ms=now_ms)
        route = routes.best(to, has_token=webhook is not None)
        if route == "channel" and now_ms - tried_from < read_back.NONCE_LIVES_MS:
            return Evidence("repeatable")
        unseen = Evidence("repeatable" if route == "original" else "none")
        if "channel" not in routes.every(to, base=self.api.base, webhook=webhook):
            return unseen
        try:
            found = await self.api.messages_since(client, to, tried_from)
        except PermanentError:  # the bot may not read there
            return unseen
        return read_back.evidence(found, part, to, self._application_id) if found is not None else unseen

    def _reply_button(self, to: Outgoing) -> tuple[Button, ...]:
        """Under the end of an answer to a command: without the Gateway, a person can't simply type on."""
        is_answer = to.is_last and not to.edits and to.click is None and "interaction_id" in to.context
        return (Button("Reply", forms.REPLY),) if self._has_reply_button and is_answer else ()

    async def react(self, emoji: str | None, message_id: str, to: Outgoing, client: Client) -> None:
        """See ``Channel.react``."""
        await self.api.react(emoji, message_id, to, client)

    async def remove(self, message_id: str, to: Outgoing, client: Client) -> None:
        """See ``Channel.remove``. Source: https://docs.discord.com/developers/resources/message#delete-message."""
        await self.api.do(client, "DELETE", routes.message_url(message_id, to, self.api.base))

    async def make_topic(self, name: str, to: Outgoing, client: Client) -> str:
        """A public thread of the channel. See ``Channel.make_topic``."""
        return await self.api.make_topic(name, to, client)

    async def end_wait(self, to: Outgoing, client: Client, *, now_ms: int) -> None:
        """Take "thinking" away, as long as the interaction's token lives. See ``Channel.end_wait``."""
        webhook = self._webhook(to, now_ms=now_ms)
        if webhook is not None:
            await self.api.end_wait(webhook, client, age_ms=now_ms - to.asked_at_ms)

    async def typing(self, to: Outgoing, client: Client) -> None:
        """See ``Channel.typing``."""
        await self.api.typing(to, client)

    async def draft(self, text: str, draft_id: int, to: Outgoing, client: Client) -> None:
        """See ``Channel.draft``."""
        raise NotPossible("Discord has no drafts")

    async def fetch(self, attachment: Mapping[str, Any], client: Client, *, limit_bytes: int) -> bytes:
        """See ``Channel.fetch``. The address is signed, and lives for a day at most."""
        url = attachment.get("url")
        if not isinstance(url, str):
            raise NotFetched("Discord gave no address for it")
        promised = downloads.promised_bytes(attachment)
        return await downloads.download(
            client, "Discord", url, origins=self.api.origins(), limit_bytes=limit_bytes, promised_bytes=promised
        )

    async def registration(self, client: Client) -> Registration:
        """See ``Channel.registration``."""
        return await self.api.registration(client, self.webhook_url)

    async def open_direct(self, sender_id: str, client: Client) -> str:
        """See ``Channel.open_direct``."""
        return await self.api.open_direct(sender_id, client)

    async def check_sending(self, client: Client) -> None:
        """See ``Channel.check_sending``: nothing is asked, because a repeated send has no second effect."""

    async def check_token(self, client: Client) -> None:
        """See ``Channel.check_token``. Source: https://docs.discord.com/developers/resources/user#get-current-user."""
        answer = await self.api.call(client, "GET", f"{self.api.base}/users/@me", None)
        platform_api.expect_success(result_of(answer))


_KINDS: dict[int, Kind] = {2: "command", 3: "callback", 4: "autocomplete", 5: "modal"}


def _form_of(event: Event, payload: dict[str, Any]) -> dict[str, Any]:
    """The form that a command on a person, or a Reply button, opens."""
    person = event.context.get("target_user_id")
    return forms.reply() if person is None else forms.about(person, interactions.name_in(payload["data"], person))


def _ids_of_bot(settings: DiscordSettings) -> frozenset[str]:
    """The ids by which people mention the bot: the application's, and the user's in the token.

    They are the same, but not for the oldest applications.
    """
    first = settings.bot_token.get_secret_value().partition(".")[0]
    try:
        user = base64.b64decode(first + "==", altchars=b"-_").decode("ascii")
    except ValueError:
        user = ""
    return frozenset({settings.application_id, user} if user.isdigit() else {settings.application_id})
