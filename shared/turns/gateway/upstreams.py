"""The hosts of models that programs may reach, and our keys for them. There are no others.

::

    /anthropic/v1/messages           Anthropic's API
    /openai/v1/chat/completions      OpenAI's API
    /openai/v1/responses
    /local/v1/chat/completions       any server that speaks one of OpenAI's dialects, such as Ollama or vLLM
    /local/v1/responses

What makes text of sound, or sound of text, is dispatch's own request (``sound_models.py``): no program reaches it here.
"""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import ROUND_CEILING, Decimal
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from shared.core.settings import FromEnvironment
from shared.db.spending.usage import PaidBy, Tokens
from shared.turns.gateway import allowed_requests
from shared.turns.gateway.allowed_requests import RequestRules
from shared.turns.gateway.dialects import ChatDialect, Dialect, MessagesDialect, ResponsesDialect

_OAUTH_BETA = b"oauth-2025-04-20"  # Anthropic takes the login of a plan only with this word in anthropic-beta


class ModelPrice(BaseModel):
    """Dollars for a million tokens. Tokens of the cache cost as much as other input, unless they have a price."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: Decimal = Field(ge=0, le=1_000_000)
    output: Decimal = Field(ge=0, le=1_000_000)
    cache_read: Decimal | None = Field(default=None, ge=0, le=1_000_000)
    cache_write: Decimal | None = Field(default=None, ge=0, le=1_000_000)

    def cost(self, tokens: Tokens) -> int:
        """Micro-dollars, rounded up: a dollar for a million tokens is a micro-dollar for a token."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        exact = (
            tokens.input * self.input
            + tokens.output * self.output
            + tokens.cache_read * read
            + tokens.cache_write * write
        )
        return int(exact.to_integral_value(ROUND_CEILING))


class GatewaySettings(FromEnvironment):
    """Our keys for models, and the prices; from the environment, with ``POSTROOM_`` before each name."""

    env_prefix = "POSTROOM_"
    ignores_empty = True

    anthropic_api_key: SecretStr | None = None
    claude_code_oauth_token: SecretStr | None = None  # the login of a plan; a key goes before it
    claude_code_oauth_ends: date | None = None  # its last day (UTC): a token of `claude setup-token` is good for a year
    anthropic_base_url: str = "https://api.anthropic.com"
    openai_api_key: SecretStr | None = None
    openai_base_url: str = "https://api.openai.com/v1"
    local_models_url: str | None = None
    local_models_api_key: SecretStr | None = None
    speech_url: str | None = None  # a server that makes text of sound, or sound of text: whisper.cpp, Kokoro, Groq, …
    speech_api_key: SecretStr | None = None
    model_prices: Mapping[str, ModelPrice] = Field(default_factory=dict)

    @field_validator("model_prices", mode="before")
    @classmethod
    def _from_json(cls, prices: Any) -> Any:
        return json.loads(prices) if isinstance(prices, str) else prices

    @field_validator("anthropic_base_url", "openai_base_url", "local_models_url", "speech_url")
    @classmethod
    def _address(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("an address such as https://api.example.com/v1 is needed")
        if parts.username or parts.password:
            raise ValueError("the address has a password in it: put it into the variable of the key instead")
        return url.rstrip("/")

    def why_no_login(self, upstream: str, *, now_ms: int) -> str | None:
        """Why requests to *upstream* would be refused, and what to do; None where nothing is known against them."""
        if upstream not in upstreams(self):
            return f"no key for {upstream!r} is set: docs/agents/money.md names the variables"
        ends = self.claude_code_oauth_ends
        is_plan = upstream == "anthropic" and self.anthropic_api_key is None
        if is_plan and ends is not None and datetime.fromtimestamp(now_ms / 1000, UTC).date() > ends:
            return (
                f"the login of the Claude plan ended on {ends}: run `claude setup-token`, set its token as "
                "POSTROOM_CLAUDE_CODE_OAUTH_TOKEN and its last day as POSTROOM_CLAUDE_CODE_OAUTH_ENDS, and restart"
            )
        return None

    def price(self, model: str) -> ModelPrice | None:
        """The price of the model: of its name, or of the longest beginning of it that has one."""
        known = [name for name in self.model_prices if model.startswith(name)]
        return self.model_prices[max(known, key=len)] if known else None


class ModelUpstream(NamedTuple):
    """One host of models.

    Attributes:
        base_url: what stands in place of ``/NAME`` (Anthropic) or ``/NAME/v1`` (the others).
        auth: our key, as the header that the host wants; empty where it wants none.
        beta: a word that must be in ``anthropic-beta``.
    """

    name: str
    base_url: str
    auth: tuple[tuple[bytes, bytes], ...]
    paid_by: PaidBy = "key"
    beta: bytes | None = None


class Route(msgspec.Struct, frozen=True):
    """Where a request goes.

    Attributes:
        dialect: None where nothing is paid for, such as counting tokens.
        rules: what it may have in its body; None: it has none.
    """

    upstream: ModelUpstream
    url: str
    dialect: Dialect | None = msgspec.field(default=None)
    rules: RequestRules | None = msgspec.field(default=None)


_MESSAGES, _CHAT, _RESPONSES = MessagesDialect(), ChatDialect(), ResponsesDialect()
_ANTHROPIC: Mapping[tuple[str, str], tuple[Dialect | None, RequestRules | None]] = {
    ("POST", "/v1/messages"): (_MESSAGES, allowed_requests.MESSAGES),
    ("POST", "/v1/messages/count_tokens"): (None, allowed_requests.MESSAGES),
    ("GET", "/v1/models"): (None, None),
}
_OPENAI: Mapping[tuple[str, str], tuple[Dialect | None, RequestRules | None]] = {
    ("POST", "/chat/completions"): (_CHAT, allowed_requests.CHAT),
    ("POST", "/responses"): (_RESPONSES, allowed_requests.RESPONSES),
    ("GET", "/models"): (None, None),
}


def upstreams(settings: GatewaySettings) -> dict[str, ModelUpstream]:
    """The hosts for which there is a key or an address, by name."""
    found = [
        _anthropic(settings),
        _bearer("openai", settings.openai_base_url, settings.openai_api_key),
        _at("local", settings.local_models_url, settings.local_models_api_key),
    ]
    return {each.name: each for each in found if each is not None}


def routes(known: Mapping[str, ModelUpstream]) -> dict[tuple[str, str], Route]:
    """Every request that the gateway passes on, by method and path; all others are refused."""
    found: dict[tuple[str, str], Route] = {}
    for upstream in known.values():
        is_anthropic = upstream.name == "anthropic"
        prefix = "/anthropic" if is_anthropic else f"/{upstream.name}/v1"
        for (method, path), (dialect, rules) in (_ANTHROPIC if is_anthropic else _OPENAI).items():
            found[method, prefix + path] = Route(upstream, upstream.base_url + path, dialect, rules)
    return found


def sound_host(settings: GatewaySettings, name: str) -> ModelUpstream | None:
    """The host of this name for sound: ``openai``, ``local`` or ``speech``; None: no key or no address of it is set."""
    if name != "speech":
        return upstreams(settings).get(name)
    return _at("speech", settings.speech_url, settings.speech_api_key)


def why_no_sound(settings: GatewaySettings, name: str) -> str | None:
    """Why the host of this name can't be asked for sound, as a part of a sentence; None: it can."""
    variable = {"openai": "OPENAI_API_KEY", "local": "LOCAL_MODELS_URL", "speech": "SPEECH_URL"}[name]
    is_set = sound_host(settings, name) is not None
    return None if is_set else f"no key or address of {name!r} is set (POSTROOM_{variable})"


def _anthropic(settings: GatewaySettings) -> ModelUpstream | None:
    if settings.anthropic_api_key is not None:
        key = settings.anthropic_api_key.get_secret_value().encode()
        return ModelUpstream("anthropic", settings.anthropic_base_url, ((b"x-api-key", key),))
    if settings.claude_code_oauth_token is not None:
        auth = _authorization(settings.claude_code_oauth_token)
        return ModelUpstream("anthropic", settings.anthropic_base_url, auth, "plan", _OAUTH_BETA)
    return None


def _at(name: str, url: str | None, key: SecretStr | None) -> ModelUpstream | None:
    """A server of the operator's own, which may want no key."""
    return None if url is None else ModelUpstream(name, url, _authorization(key) if key else ())


def _bearer(name: str, base_url: str, key: SecretStr | None) -> ModelUpstream | None:
    return ModelUpstream(name, base_url, _authorization(key)) if key else None


def _authorization(key: SecretStr) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"authorization", b"Bearer " + key.get_secret_value().encode()),)
