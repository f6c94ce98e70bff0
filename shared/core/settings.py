"""The settings that all functions share, in one frozen model.

A channel or a provider keeps its settings in a small model in *its own file*, so that adding one edits nothing
here.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_core import ErrorDetails

from shared.core import http_head, setting_places, sound_makers
from shared.core.durability import parse_levels
from shared.core.errors import ConfigInvalid
from shared.core.slim_imports import barren
from shared.core.text import redaction
from shared.core.text.validation import reason, where
from shared.core.time import hours

# Pydantic would read what every installed package says of itself, to look for its plugins: 7 ms and 1 MB of each start.
with barren("importlib.metadata", "entry_points"):
    import pydantic.plugin._loader  # noqa: F401

NewChats = Literal[
    "refuse", "ask", "wire"
]  # without a wiring: no answer, an owner is asked, or the default agent answers
AGENTS_FILE = "postroom.toml"
_WEBHOOK_URL = re.compile(r"https://[^\s/?#]+(/[^\s#]*)?|http://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?(/[^\s#]*)?")
_WEBHOOK_SECRET = re.compile(r"(whsec_)?[A-Za-z0-9+/]{32,88}={0,2}")  # as Standard Webhooks has them
_PAGE_URL = re.compile(r"https?://[^\s/?#]+(/[^\s?#]*)?")


class FromEnvironment(BaseModel):
    """A settings model whose error has one sentence for each wrong variable, and whose secrets no log shows.

    Attributes:
        env_prefix: how its variables begin; the rest is the field's name in capitals.
        ignores_empty: an empty variable counts as not set.
        is_of_accounts: other prefixes, which begin with ``env_prefix``, give the settings of further accounts.
    """

    model_config = ConfigDict(frozen=True)

    env_prefix: ClassVar[str] = ""
    ignores_empty: ClassVar[bool] = False
    is_of_accounts: ClassVar[bool] = False

    def model_post_init(self, _: Any) -> None:
        for name in type(self).model_fields:
            if isinstance(value := getattr(self, name, None), SecretStr):
                redaction.register(value.get_secret_value())

    @classmethod
    def load(cls, prefix: str | None = None, given: Mapping[str, str] | None = None) -> Self:
        """Read the environment once.

        Args:
            prefix: how the variables begin, in place of the model's own ``env_prefix``.
            given: values by field name, in place of their variables.

        Raises:
            ConfigInvalid: names every variable that is missing or wrong, where it stands if that is known, and the
                reason; never its value.
        """
        prefix = cls.env_prefix if prefix is None else prefix
        found = {name: os.environ.get(f"{prefix}{name.upper()}") for name in cls.model_fields}
        is_set = {name: value for name, value in found.items() if value or (value == "" and not cls.ignores_empty)}
        try:
            return cls.model_validate({**is_set, **(given or {})})
        except ValidationError as error:
            problems = (_sentence(f"{prefix}{where(each).upper()}", each) for each in error.errors())
            raise ConfigInvalid("settings: " + "; ".join(problems)) from None


def _sentence(name: str, problem: ErrorDetails) -> str:
    place, said = setting_places.find(name), f"{name}: {reason(problem)}"
    if problem["type"] == "literal_error":
        said = f"{name} is none of the words {problem['ctx']['expected']}"
    return said if place is None else f"{place}: {said}"


def known_variables() -> set[str]:
    """The names of the variables that the settings models read, as far as their modules are imported.

    A ``*`` stands for the word of a further account, as in ``TELEGRAM_*_BOT_TOKEN``.
    """
    found: set[str] = set()
    models: list[type[FromEnvironment]] = [FromEnvironment]
    while models:
        model = models.pop()
        models += model.__subclasses__()
        found |= {f"{model.env_prefix}{name.upper()}" for name in model.model_fields}
        if model.is_of_accounts:
            found |= {f"{model.env_prefix}*_{name.upper()}" for name in model.model_fields}
    return found


class Settings(FromEnvironment):
    """Read from the environment: ``POSTROOM_`` and the field's name in capitals.

    An empty variable counts as not set. ``_ms`` means milliseconds.
    """

    env_prefix = "POSTROOM_"
    ignores_empty = True

    db: Path = Path("postroom.db")
    run_dir: Path | None = None
    agents_dir: Path = Path("agents")
    config: Path | None = None  # the first agents and teams of a new database; None: ./postroom.toml, if it exists

    tick_secret: SecretStr | None = None
    api_token: SecretStr | None = None
    origins: str = ""  # of other pages of this machine that may call the API, such as "http://localhost:3000"
    public_url: str = ""  # of the operator's page, for links to it; empty: an id stands alone

    new_chats: NewChats = "ask"
    sender_limit: int = Field(default=120, ge=0, le=60_000)  # messages a minute of one sender; 0: no limit
    chat_limit: int = Field(default=600, ge=0, le=60_000)  # messages a minute of all senders of one group
    chain_limit: int = Field(default=100, ge=0, le=60_000)  # messages of agents because of one message; 0: no limit
    chain_dollars: float = Field(default=10.0, ge=0)  # for what agents do because of one message; 0: no limit
    chain_tokens: int = Field(default=20_000_000, ge=0)  # likewise, where money is not counted; 0: no limit
    pair_limit: int = Field(default=120, ge=0, le=60_000)  # messages a minute between two agents; 0: no limit
    sender_bytes: int = Field(default=100 * 1024 * 1024, ge=0, le=10**12)  # of text and files, as sender_limit
    approval_life_ms: int = Field(default=7 * 24 * 60 * 60 * 1000, ge=60_000)
    permission_wait_ms: int = Field(default=10 * 60 * 1000, ge=1000)  # of a turn, for a yes to what its program asks
    pairing_life_ms: int = Field(default=15 * 60 * 1000, ge=60_000)
    timezone: str = "UTC"  # for agents and schedules without one

    batch_size: int = Field(default=10, ge=1, le=1000)
    max_concurrent_turns: int = Field(default=16, ge=1, le=10_000)
    max_concurrent_sends: int = Field(default=16, ge=1, le=1000)
    pace_sends: bool = True  # ahead of the limits that platforms are known to have; off for load tests against fakes
    lease_ms: int = Field(default=600_000, ge=1000)  # after this time without renewal, a turn or a send counts as dead
    turn_timeout_ms: int = Field(default=600_000, ge=100)
    idle_timeout_ms: int = Field(default=300_000, ge=100)  # of an agent's program, without a line of output
    tool_timeout_ms: int = Field(default=300_000, ge=100)  # of one tool call of an agent's program
    tool_calls: int = Field(default=200, ge=1, le=100_000)  # of Postroom's tools, in one turn
    output_limit_bytes: int = Field(default=8 * 1024 * 1024, ge=1024)  # of an agent's program, in one turn
    memory_limit_mb: int = Field(default=4096, ge=16)  # of an agent's program and all that it starts
    disk_limit_mb: int = Field(default=2048, ge=1)  # of what an agent's program may write, in the folders of a session
    file_retention_ms: int = Field(default=24 * 60 * 60 * 1000, ge=60_000)  # of files in inboxes and outboxes
    files_limit_mb: int = Field(default=1024, ge=1)  # of an agent's inboxes and outboxes; less than disk_limit_mb
    transcriber: str | None = None  # makes text of voice messages, for agents without their own: see sound_makers
    speaker: str | None = None  # makes sound of what agents say, likewise
    leash: Literal["auto", "off", "required"] = "auto"  # of agents' programs: bubblewrap, where this host allows it
    max_attempts: int = Field(default=5, ge=1)
    retry_base_ms: int = Field(default=5000, ge=1)
    retry_cap_ms: int = Field(default=300_000, ge=1)
    unknown_sends: Literal["resend", "hold"] = "resend"
    outage_limit_hours: float = Field(default=24, gt=0, le=24 * 365)  # after which what waits for a platform is dead
    alert_url: SecretStr | None = None  # of a webhook for alerts; it may hold a token, so no row has it
    alert_secret: SecretStr | None = None  # which signs what is posted there
    stuck_after_ms: int = Field(default=10 * 60_000, ge=60_000)  # a message or an answer that waits so long is stuck
    retention_ms: int = Field(
        default=24 * 60 * 60 * 1000, ge=0
    )  # of completed and cancelled messages and acked responses
    history_retention_ms: int = Field(
        default=30 * 24 * 60 * 60 * 1000, ge=0
    )  # of events, schedule runs and drops; 0: for ever
    conversation_idle_ms: int = Field(
        default=30 * 60 * 1000, ge=1000
    )  # after which a conversation between agents is closed

    durability: str = "local"  # or "replicated"; then exceptions: "local,telegram=replicated"
    litestream_socket: Path | None = None
    replication_timeout_ms: int = Field(default=2000, ge=10, le=60_000)  # Discord gives up after 3 s

    @field_validator("origins")
    @classmethod
    def _of_this_machine(cls, listed: str) -> str:
        for each in filter(None, map(str.strip, listed.split(","))):
            if not http_head.is_local_origin(each):
                raise ValueError("write origins of this machine with commas, such as 'http://localhost:3000'")
        return listed

    @field_validator("public_url")
    @classmethod
    def _is_of_page(cls, url: str) -> str:
        if url and not _PAGE_URL.fullmatch(url):
            raise ValueError("write the address of the operator's page, such as 'https://postroom.example'")
        return url.rstrip("/")

    @field_validator("alert_url")
    @classmethod
    def _is_of_webhook(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not _WEBHOOK_URL.fullmatch(url.get_secret_value()):
            raise ValueError("write an address that begins with https://, or of this machine with http://")
        return url

    @field_validator("alert_secret")
    @classmethod
    def _signs(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None and not _WEBHOOK_SECRET.fullmatch(secret.get_secret_value()):
            raise ValueError("write 24 to 64 random bytes in base64, as `openssl rand -base64 32` makes them")
        return secret

    @field_validator("transcriber")
    @classmethod
    def _makes_text(cls, setting: str | None) -> str | None:
        return sound_makers.checked_transcriber(setting)

    @field_validator("speaker")
    @classmethod
    def _makes_sound(cls, setting: str | None) -> str | None:
        return sound_makers.checked_speaker(setting)

    @field_validator("timezone")
    @classmethod
    def _known(cls, name: str) -> str:
        return hours.checked_zone(name) or name

    @field_validator("durability")
    @classmethod
    def _levels(cls, text: str) -> str:
        parse_levels(text)
        return text

    @property
    def agents_file(self) -> Path | None:
        """The file of the first agents: the one that is set, else ``./postroom.toml`` if that exists."""
        here = Path(AGENTS_FILE)
        return self.config or (here if here.is_file() else None)

    @property
    def files(self) -> Path:
        """The folder of files that agents send, for the clients that fetch their answers."""
        return self.db.with_name(self.db.name + ".files")

    @property
    def account_tokens(self) -> Path:
        """The file with the tokens of bots that Postroom was given while it runs. It is in no replica."""
        return self.db.with_name(self.db.name + ".tokens")

    @property
    def sockets(self) -> Path:
        """The folder of the kick sockets, one for each database."""
        return self.run_dir or self.db.with_name(self.db.name + ".run")
