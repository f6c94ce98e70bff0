"""What the relay of Discord's Gateway reads from the environment beside the settings of its bot."""

from pathlib import Path
from typing import Self

from pydantic import Field

from shared.core import accounts
from shared.core.settings import FromEnvironment


class RelaySettings(FromEnvironment):
    """Read from the environment: ``DISCORD_RELAY_`` and the field's name in capitals.

    Attributes:
        target: the address of ``ingest`` for this account; None: port 9001 of this machine.
        state: the file that keeps the place in the stream of events over restarts.
        content: ask for the content of all messages, which Discord has to allow.
    """

    env_prefix = "DISCORD_RELAY_"

    target: str | None = Field(default=None, pattern=r"^https?://[^/?#]+(/[^?#]*)?$")
    state: Path = Path("data/discord_relay.json")
    content: bool = False

    @classmethod
    def of(cls, account: str) -> Self:
        """The settings of *account*; those of a further one begin with its name."""
        return cls.load(f"{accounts.prefix_of(account)}RELAY_", {})
