"""Discord: signed interactions and webhook events in, the interaction's own messages out.

Every request is verified over its raw bytes before anything else; Discord keeps sending forged ones to see that they
are refused. ``/ask`` is answered "thinking" at once and edited later; what this bot can't do is said there and then.
The token that allows the edit is stored sealed with a key made from the bot's token, and lives for 15 minutes.

Source: https://docs.discord.com/developers/interactions/receiving-and-responding,
https://docs.discord.com/developers/interactions/overview#validating-security-request-headers,
https://docs.discord.com/developers/resources/message#create-message (``nonce``, ``allowed_mentions``),
https://docs.discord.com/developers/topics/opcodes-and-status-codes, https://docs.discord.com/developers/topics/rate-limits.
"""

import base64
import hashlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
from nacl.exceptions import BadSignatureError, CryptoError
from nacl.secret import SecretBox
from nacl.signing import VerifyKey
from pydantic import Field, SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from shared.channels import http, keys, markdown, sanitize
from shared.channels.base import Button, Event, Kind, Outgoing, Part, Received, WebhookReply, WebhookRequest
from shared.channels.http import Verdict
from shared.errors import OutcomeUnknown, PayloadInvalid, RetryableError, SignatureInvalid
from shared.settings import FromEnvironment

if TYPE_CHECKING:
    import httpx

ASK = "ask"
PART_UNITS = 1900  # of the 2000 that a bot may send
FRESH_MS = 5 * 60_000  # how far a signed timestamp may be from now: a captured request can't be replayed later
TOKEN_LIFE_MS = 14 * 60_000 + 30_000  # of the 15 minutes that an interaction token lives
RACE_MS = 2_000  # how long Discord may take to know of an interaction that we have answered
DEFAULT_WAIT_MS = 5_000
REFUSED_TOKEN_WAIT_MS = 60_000
BLOCKED_WAIT_MS = 5 * 60_000  # a 429 that is no JSON comes from Cloudflare, which blocks for minutes
USER_AGENT = "DiscordBot (https://postroom.example, 0.1.0)"  # without one, Cloudflare may refuse the call
NO_PINGS = {"parse": [], "replied_user": False}
EPHEMERAL = 64

_THREADS = (10, 11, 12)
_GROUP_DM = 3
_GROUP_CONTEXT = 2
_NOT_TAKEN = (
    "I can't answer this: it was empty, it was one too many within a minute, you may not talk to the agent here, or no "
    "agent is connected to this channel. Whoever runs this bot can see which."
)
_UNAVAILABLE: dict[Kind, str] = {
    "command": "I don't know that command. Use /ask with your question.",
    "modal": "I can't take forms yet, so nothing was done with it. Use /ask with your question.",
    "ignore": "I could not read that. Use /ask with your question.",
}


class DiscordSettings(FromEnvironment):
    """Read from ``DISCORD_PUBLIC_KEY`` and so on: the field in capitals."""

    model_config = SettingsConfigDict(env_prefix="DISCORD_", frozen=True, extra="ignore")

    public_key: str = Field(default=...)
    application_id: str = Field(default=..., pattern=r"^[0-9]{1,20}$")
    bot_token: SecretStr = Field(default=...)
    api_base: str = Field(default="https://discord.com/api/v10", pattern=r"^https?://[^/?#]+(/[^?#]*)?$")

    @field_validator("public_key")
    @classmethod
    def _key(cls, value: str) -> str:
        if not re.fullmatch(r"[0-9a-fA-F]{64}", value):
            raise ValueError("should be the application's public key: 64 hexadecimal digits")
        return value

    @field_validator("bot_token")
    @classmethod
    def _token(cls, value: SecretStr) -> SecretStr:
        if not re.fullmatch(r"[A-Za-z0-9._=-]+", value.get_secret_value()):
            raise ValueError("should be the bot's token from the developer portal")
        return value


def channel() -> "Discord":
    """The adapter, configured from the environment."""
    return Discord(DiscordSettings.load())


# -- what Discord sends: only what is read, everything else ignored ---------------------------------------------------


class _User(msgspec.Struct):
    id: str
    username: str | None = None
    global_name: str | None = None


class _Member(msgspec.Struct):
    user: _User | None = None
    nick: str | None = None


class _Channel(msgspec.Struct):
    id: str
    type: int = 0
    parent_id: str | None = None


class _Attachment(msgspec.Struct):
    url: str
    filename: str = ""
    content_type: str | None = None
    size: int | None = None


class _Message(msgspec.Struct):
    id: str
    content: str = ""
    author: _User | None = None
    attachments: list[_Attachment] = []


class _Interaction(msgspec.Struct):
    id: str
    token: str
    data: dict[str, Any] = {}
    channel: _Channel | None = None
    channel_id: str | None = None
    guild_id: str | None = None
    member: _Member | None = None
    user: _User | None = None
    message: _Message | None = None
    context: int | None = None
    authorizing_integration_owners: dict[str, Any] | None = None

    @property
    def place(self) -> _Channel | None:
        return self.channel or (_Channel(self.channel_id) if self.channel_id else None)

    @property
    def author(self) -> _User | None:
        return (self.member.user if self.member else None) or self.user

    @property
    def author_name(self) -> str:
        author = self.author
        names = (self.member and self.member.nick, author and author.global_name, author and author.username)
        return next(filter(None, (sanitize.name(name) for name in names if name)), author.id if author else "")

    @property
    def is_group(self) -> bool:
        is_group_dm = self.context == _GROUP_CONTEXT or (self.channel is not None and self.channel.type == _GROUP_DM)
        return self.guild_id is not None or is_group_dm

    @property
    def bot_is_there(self) -> bool:
        """Whether the bot itself, not only its command, is in this conversation and may write there later."""
        owners = self.authorizing_integration_owners
        return self.guild_id is not None if owners is None else "0" in owners


class Discord:
    """One application and its bot."""

    name = "discord"
    unreadable = WebhookReply()

    def __init__(self, settings: DiscordSettings) -> None:
        self._key = VerifyKey(bytes.fromhex(settings.public_key))
        self._application_id = settings.application_id
        self._base = settings.api_base.rstrip("/")
        self._bot_token = settings.bot_token.get_secret_value()
        seal = hashlib.blake2b(self._bot_token.encode(), digest_size=SecretBox.KEY_SIZE, person=b"postroom-token")
        self._box = SecretBox(seal.digest())

    # -- in ---------------------------------------------------------------------------------------------------------

    def receive(self, request: WebhookRequest, *, now_ms: int) -> Received:
        """See ``Channel.receive``. The reply is what the person sees until the answer comes."""
        self._verify(request, now_ms)
        try:
            return self._read(msgspec.json.decode(request.body), request.body)
        except (ValueError, RecursionError) as error:
            raise PayloadInvalid(f"not JSON that can be read ({type(error).__name__})") from None

    def _verify(self, request: WebhookRequest, now_ms: int) -> None:
        signature = request.headers.get("x-signature-ed25519", "")
        timestamp = request.headers.get("x-signature-timestamp", "")
        if not re.fullmatch(r"[0-9a-fA-F]{128}", signature) or not re.fullmatch(r"[0-9]{1,15}", timestamp):
            raise SignatureInvalid("the X-Signature-Ed25519 or X-Signature-Timestamp header is missing or malformed")
        try:
            self._key.verify(timestamp.encode() + request.body, bytes.fromhex(signature))
        except (BadSignatureError, ValueError):
            raise SignatureInvalid("the signature does not fit: check DISCORD_PUBLIC_KEY") from None
        if abs(now_ms - int(timestamp) * 1000) > FRESH_MS:
            raise SignatureInvalid("signed more than 5 minutes ago or ahead: a replay, or a clock that is wrong")

    def _read(self, payload: Any, body: bytes) -> Received:
        match payload:
            case {"event": {"type": str(name)} as event}:
                return Received((_webhook_event(name, event, _digest(body)),), WebhookReply(204))
            case {"type": 0}:
                return Received((), WebhookReply(204))
            case {"type": 1}:
                return Received((), _json({"type": 1}))
            case {"id": str(key), "type": int(number)} if number in _KINDS:
                return self._interaction(key, _KINDS[number], payload)
            case {"op": int(), "t": _}:  # a Gateway frame, as a relay would forward it; there is no relay
                return Received((Event("ignore", _digest(body), reason="relay"),))
        raise PayloadInvalid("neither an interaction nor a webhook event")

    def _interaction(self, key: str, kind: Kind, payload: dict[str, Any]) -> Received:
        try:
            event = self._event(kind, msgspec.convert(payload, _Interaction))
        except msgspec.ValidationError:
            event = Event("ignore", key, reason="malformed")
        if event.asks_for_a_turn:
            return Received((event,), _json({"type": 5}), not_taken=_say(_NOT_TAKEN))
        if event.kind in _ANSWERED:
            return Received((event,), _json(_ANSWERED[event.kind]))
        return Received((event,), _say(_UNAVAILABLE[event.kind]))

    def _event(self, kind: Kind, interaction: _Interaction) -> Event:
        place, author = interaction.place, interaction.author
        if place is None or author is None:
            return Event("ignore", interaction.id, reason="malformed")
        said = _SAID[kind](interaction, self._application_id)
        is_thread = place.type in _THREADS and place.parent_id is not None
        is_ask = (
            kind == "command" and said.command == ASK and interaction.data.get("type", _SLASH_COMMAND) == _SLASH_COMMAND
        )
        return Event(
            kind,
            interaction.id,
            platform_id=place.parent_id if is_thread else place.id,
            thread_id=place.id if is_thread else None,
            platform_message_id=interaction.id,
            sender=interaction.author_name,
            sender_id=author.id,
            text=sanitize.text(said.text),
            attachments=tuple(said.attachments),
            is_mention=True,
            is_group=interaction.is_group,
            reply_to=said.reply_to,
            command=said.command,
            context=said.facts | self._way_back(interaction),
            reason=None if is_ask else f"unsupported:{kind}",
        )

    def _way_back(self, interaction: _Interaction) -> dict[str, Any]:
        """What ``send`` needs to answer this interaction, and to go on after its token has died."""
        return {
            "interaction_id": interaction.id,
            "application_id": self._application_id,
            "sealed_token": self.seal(interaction.token),
            "guild_id": interaction.guild_id,
            "bot_is_there": interaction.bot_is_there,
        }

    def seal(self, token: str) -> str:
        """*token* so that only who knows the bot's token can read it."""
        return base64.b64encode(self._box.encrypt(token.encode())).decode()

    def unseal(self, sealed: object) -> str | None:
        """The token, or None if there is none or the bot's token has changed since."""
        try:
            return self._box.decrypt(base64.b64decode(str(sealed), validate=True)).decode() if sealed else None
        except (CryptoError, ValueError):
            return None

    # -- out --------------------------------------------------------------------------------------------------------

    def render(self, text: str) -> tuple[Part, ...]:
        """Discord reads markdown: only tables are redrawn, and long texts cut. See ``Channel.render``."""
        source = markdown.tables_as_code(sanitize.text(text.replace("\r\n", "\n")))
        return tuple(Part(piece) for piece in markdown.split_source(source, PART_UNITS))

    async def send(self, part: Part, to: Outgoing, client: "httpx.AsyncClient", *, now_ms: int) -> str | None:
        """By the interaction's token while it lives, then as the bot: edit, fill in or say. See ``Channel.send``."""
        age_ms = now_ms - to.asked_at_ms
        facts = to.context if to.click is None else to.click
        token = self.unseal(facts.get("sealed_token")) if age_ms < TOKEN_LIFE_MS else None
        routes = self._routes(to, token)
        route = routes.pop(_first(to, has_token=token is not None), None)
        verdict = _OVER
        while route:
            verdict = await self._try(route, part, to, client)
            if verdict.outcome == "sent":
                return verdict.message_id
            if verdict.step in ("expired", "gone") and route.is_token and age_ms < RACE_MS:
                raise RetryableError(f"{verdict.reason}; Discord may not know of it yet", race_wait_ms(age_ms))
            names = _NEXT.get(verdict.step, ())
            route = next((routes.pop(name) for name in names if name in routes), None)
            if route is None and verdict.step == "expired":
                verdict = _OVER
        raise http.failure(verdict)

    def _routes(self, to: Outgoing, token: str | None) -> "dict[str, Route]":
        """Every way that leads to this conversation now."""
        routes = {}
        here = to.context if to.click is None else to.click
        if token:
            webhook = f"{self._base}/webhooks/{self._application_id}/{quote(token, safe='')}"
            routes["original"] = Route("PATCH", f"{webhook}/messages/@original", is_repeatable=True, is_token=True)
            routes["follow_up"] = Route("POST", webhook, is_repeatable=False, is_token=True)
        if here.get("bot_is_there", True):
            for name, channel_id in (("channel", to.thread_id or to.platform_id), ("parent", to.platform_id)):
                url = f"{self._base}/channels/{quote(channel_id, safe='')}/messages"
                routes[name] = Route("POST", url, is_repeatable=True)
                if to.edits and name == "channel":
                    routes["edit"] = Route("PATCH", f"{url}/{quote(to.edits, safe='')}", is_repeatable=True)
        return routes

    async def _try(self, route: "Route", part: Part, to: Outgoing, client: "httpx.AsyncClient") -> Verdict:
        body: dict[str, Any] = {"content": part.text, "allowed_mentions": NO_PINGS}
        headers = {"User-Agent": USER_AGENT}
        if to.buttons or to.edits:  # an edit without any takes away those that are there
            body["components"] = components(to.buttons)
        if not route.is_token:
            headers["Authorization"] = f"Bot {self._bot_token}"
        if not route.is_token and route.method == "POST":
            body |= {"nonce": nonce(to), "enforce_nonce": True}
        if route.is_token and to.click is not None and not to.edits:
            body["flags"] = EPHEMERAL
        try:
            answer = await http.call(client, "Discord", route.method, route.url, body, headers)
            verdict = classify(answer.status, answer.payload)
        except OutcomeUnknown as error:
            verdict = Verdict("unknown", str(error))
        if verdict.outcome == "unknown" and route.is_repeatable:  # again is the same message, not a second
            return replace(verdict, outcome="retry")
        return verdict

    async def open_direct(self, sender_id: str, client: "httpx.AsyncClient") -> str:
        """The channel of the bot's direct messages with somebody. See ``Channel.open_direct``.

        Source: https://docs.discord.com/developers/resources/user#create-dm (the same channel every time).
        """
        url = f"{self._base}/users/@me/channels"
        headers = {"User-Agent": USER_AGENT, "Authorization": f"Bot {self._bot_token}"}
        try:
            answer = await http.call(client, "Discord", "POST", url, {"recipient_id": sender_id}, headers)
        except OutcomeUnknown as error:  # again opens no second one
            raise RetryableError(str(error)) from None
        verdict = classify(answer.status, answer.payload)
        if verdict.outcome == "sent" and verdict.message_id:
            return verdict.message_id
        if verdict.outcome in ("sent", "unknown"):
            raise RetryableError(verdict.reason or "Discord did not name the channel that it opened")
        raise http.failure(verdict)


@dataclass(frozen=True, slots=True)
class Route:
    """One way to send, by an interaction's token or as the bot: *is_repeatable* where two calls make one message."""

    method: str
    url: str
    is_repeatable: bool
    is_token: bool = False


_OVER = Verdict("permanent", "the interaction's 15 minutes are over, and the bot itself is not in that conversation")
_NEXT = {"expired": ("edit", "channel"), "gone": ("follow_up", "channel"), "archived": ("parent",)}


def _first(to: Outgoing, *, has_token: bool) -> str:
    """The best way. A press was answered "wait": @original is then the message that has the button."""
    if to.click is None:
        if to.edits:
            return "edit"
        return ("original" if to.is_first else "follow_up") if has_token else "channel"
    if to.edits:
        return "original" if has_token and to.edits == to.click.get("message_id") else "edit"
    return "follow_up" if has_token else "channel"


# -- reading ----------------------------------------------------------------------------------------------------------

_KINDS: dict[int, Kind] = {2: "command", 3: "callback", 4: "autocomplete", 5: "modal"}
_ANSWERED: dict[Kind, dict[str, Any]] = {
    "callback": {"type": 6},
    "autocomplete": {"type": 8, "data": {"choices": []}},
}
_SUBCOMMANDS = (1, 2)
_SLASH_COMMAND = 1
_USER_COMMAND = 2
_MESSAGE_COMMAND = 3
_STRING = 3
_FILE = 11


@dataclass(frozen=True, slots=True)
class _Said:
    """What an interaction says, apart from who says it and where."""

    text: str = ""
    attachments: tuple[dict[str, Any], ...] = ()
    reply_to: dict[str, Any] | None = None
    command: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def _command(interaction: _Interaction, application_id: str) -> _Said:
    data = interaction.data
    name, options = _path(data)
    if data.get("type") == _USER_COMMAND:
        return _Said(command=name, facts={"target_user_id": str(data.get("target_id"))})
    if data.get("type") == _MESSAGE_COMMAND:
        target = msgspec.convert(_resolved(data, "messages", data.get("target_id")) or {}, _Message)
        files = tuple(map(_file, target.attachments))
        facts = {"target_message_id": target.id}
        return _Said(target.content, files, _quoted(target, application_id), name, facts)
    found = (_resolved(data, "attachments", option.get("value")) for option in options if option.get("type") == _FILE)
    files = tuple(_file(msgspec.convert(file, _Attachment)) for file in found if file)
    values = {str(option.get("name")): option.get("value") for option in options if option.get("type") != _FILE}
    values = {key: value for key, value in values.items() if isinstance(value, str | int | float)}
    words = [str(option.get("name")) for option in options if option.get("type") == _STRING]
    text = values.pop(next((key for key in ("prompt", *words) if key in values), ""), "")
    return _Said(str(text), files, command=name, facts={"options": values} if values else {})


def _path(data: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """A command's name with those of its subcommands, and the options of the last."""
    names, options = [str(data.get("name", ""))], _dicts(data.get("options"))
    while options and options[0].get("type") in _SUBCOMMANDS:
        names.append(str(options[0].get("name", "")))
        options = _dicts(options[0].get("options"))
    return sanitize.name(" ".join(names)), options


def _dicts(values: Any) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _resolved(data: dict[str, Any], table: str, key: Any) -> dict[str, Any] | None:
    """What an id in the options stands for, where Discord sent it along."""
    tables = data.get("resolved")
    entries = tables.get(table) if isinstance(tables, dict) else None
    entry = entries.get(key) if isinstance(entries, dict) and isinstance(key, str) else None
    return entry if isinstance(entry, dict) else None


def _file(file: _Attachment) -> dict[str, Any]:
    facts = {
        "name": sanitize.file_name(file.filename),
        "mime": sanitize.mime(file.content_type or ""),
        "size": file.size,
    }
    return {"kind": "file", "url": file.url, **{name: fact for name, fact in facts.items() if fact is not None}}


def _quoted(message: _Message, application_id: str) -> dict[str, Any]:
    author = message.author.id if message.author else None
    text = sanitize.text(message.content)
    return {"message_id": message.id, "text": text, "sender_id": author, "is_self": author == application_id}


def _callback(interaction: _Interaction, application_id: str) -> _Said:
    values = interaction.data.get("values")
    reply_to = _quoted(interaction.message, application_id) if interaction.message else None
    facts: dict[str, Any] = {"values": values} if isinstance(values, list) else {}
    if interaction.message:
        facts["message_id"] = interaction.message.id
    return _Said(str(interaction.data.get("custom_id", "")), reply_to=reply_to, facts=facts)


def _autocomplete(interaction: _Interaction, application_id: str) -> _Said:
    name, options = _path(interaction.data)
    focused: dict[str, Any] = next((option for option in options if option.get("focused")), {})
    facts = {"focused": focused.get("name"), "value": focused.get("value")}
    return _Said(command=name, facts=facts)


def _modal(interaction: _Interaction, application_id: str) -> _Said:
    inputs = list(_inputs(interaction.data.get("components")))
    fields = {str(item["custom_id"]): item.get("value", item.get("values")) for item in inputs}
    text = "\n".join(value for value in fields.values() if isinstance(value, str))
    reply_to = _quoted(interaction.message, application_id) if interaction.message else None
    facts = {"custom_id": str(interaction.data.get("custom_id", "")), "fields": fields}
    return _Said(text, reply_to=reply_to, facts=facts)


def _inputs(components: Any) -> Iterator[dict[str, Any]]:
    """What was filled in: inside labels today, inside action rows in older forms."""
    for component in _dicts(components):
        yield from _inputs(component.get("components"))
        yield from _inputs([component.get("component")])
        if "custom_id" in component:
            yield component


_SAID: dict[Kind, Callable[[_Interaction, str], _Said]] = {
    "command": _command,
    "callback": _callback,
    "autocomplete": _autocomplete,
    "modal": _modal,
}


def _webhook_event(name: str, event: dict[str, Any], key: str) -> Event:
    """Installed or removed; the rest is of no use here."""
    match name, event.get("data"):
        case (("APPLICATION_AUTHORIZED" | "APPLICATION_DEAUTHORIZED"), {"user": {"id": str(user)}, **data}):
            guild = data.get("guild")
            status = name.removeprefix("APPLICATION_").lower()
            facts = {"status": status, "guild_id": guild.get("id") if isinstance(guild, dict) else None}
            return Event("membership", key, sender_id=user, context=facts)
    return Event("ignore", key, reason=name if re.fullmatch(r"[A-Z_]{1,64}", name) else "unknown_event")


def _digest(body: bytes) -> str:
    """A key for what has no id of its own; a redelivery is the same bytes."""
    return "body:" + hashlib.blake2b(body, digest_size=16).hexdigest()


def _json(body: dict[str, Any]) -> WebhookReply:
    return WebhookReply(200, msgspec.json.encode(body), "application/json")


def _say(text: str) -> WebhookReply:
    """An answer at once, that only the person who asked sees."""
    data = {"content": text, "flags": EPHEMERAL, "allowed_mentions": NO_PINGS}
    return _json({"type": 4, "data": data})


# -- sending ----------------------------------------------------------------------------------------------------------


def nonce(to: Outgoing) -> str:
    """The same 24 characters on every retry of this part, and on nothing else: Discord sends a nonce once."""
    named = f"{to.response_id}:{to.part_index}:{to.asked_at_ms}"
    return hashlib.blake2b(named.encode(), digest_size=12).hexdigest()


def components(buttons: Sequence[Button]) -> list[dict[str, Any]]:
    """Rows of grey buttons, five in each. Source: https://docs.discord.com/developers/components/reference."""
    laid_out = keys.rows(buttons, per_row=5)
    shown = [[{"type": 2, "style": 2, "label": key.label, "custom_id": key.token} for key in row] for row in laid_out]
    return [{"type": 1, "components": row} for row in shown]


def race_wait_ms(age_ms: int) -> int:
    """Short waits for as long as Discord may not know of the interaction yet; in all fewer than ``max_attempts``."""
    return 250 if age_ms < 250 else 500 if age_ms < 1000 else 1000


_STEPS = {
    10062: "expired",
    10015: "expired",
    50027: "expired",
    10008: "gone",
    30046: "gone",
    50005: "gone",
    50083: "archived",
}
_WAITS = (20016, 20028, 40062, 130000)
_ALREADY_ANSWERED = 40060


def classify(status: int, payload: dict[str, Any]) -> Verdict:
    """Decide, without doing anything, what *status* and the JSON *payload* of a message call ask for."""
    code = payload.get("code")
    reason = f"Discord {status}: {sanitize.name(str(payload.get('message', '')))[:200] or 'no message'} (code {code})"
    if 200 <= status < 300 or code == _ALREADY_ANSWERED:
        number = payload.get("id")
        return Verdict("sent", message_id=number if isinstance(number, str) else None)
    if status == 429 or code in _WAITS:
        return Verdict("wait", reason, retry_after_ms=_retry_after_ms(payload))
    if code in _STEPS:
        return Verdict("permanent", reason, step=_STEPS[code])
    if status == 401:
        return Verdict("retry", f"{reason}; check DISCORD_BOT_TOKEN", retry_after_ms=REFUSED_TOKEN_WAIT_MS)
    return Verdict("permanent" if 400 <= status < 500 else "unknown", reason)


def _retry_after_ms(payload: dict[str, Any]) -> int:
    seconds = payload.get("retry_after")
    if isinstance(seconds, int | float) and 0 <= seconds < 86_400:
        return max(math.ceil(seconds * 1000), 1)
    return DEFAULT_WAIT_MS if payload else BLOCKED_WAIT_MS
