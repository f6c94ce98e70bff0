"""The operator's settings of who may talk to whom; the rows of chats and wirings hold the rest."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self, get_args

from shared.core.settings import NewChats, Settings

SenderPolicy = Literal["strict", "request_approval", "public"]
SENDER_POLICIES: tuple[str, ...] = get_args(SenderPolicy)

_OF_NEW_CHATS: Mapping[NewChats, SenderPolicy] = {"wire": "public", "ask": "request_approval", "refuse": "strict"}


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """Fields of ``Settings``.

    Attributes:
        new_chats: what happens in a chat without a wiring.
        sender_limit: messages a minute of one sender, all at once if need be; 0: any number.
        chat_limit: the same for all senders of one group together.
        sender_bytes: bytes of text and attachments a minute of one sender; 0: any number.
        approval_life_ms: after this time an approval expires.
        public_url: of the operator's page, for links in what operators read; empty: none.
    """

    new_chats: NewChats = "ask"
    sender_limit: int = 120
    chat_limit: int = 600
    approval_life_ms: int = 7 * 24 * 60 * 60 * 1000
    sender_bytes: int = 100 * 1024 * 1024
    public_url: str = ""

    @property
    def has_limits(self) -> bool:
        """Whether anything limits how much people may send."""
        return bool(self.sender_limit or self.chat_limit or self.sender_bytes)

    @property
    def of_new_chats(self) -> SenderPolicy:
        """The sender policy of a chat that a message created."""
        return _OF_NEW_CHATS[self.new_chats]

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """From the settings."""
        return cls(
            settings.new_chats,
            settings.sender_limit,
            settings.chat_limit,
            settings.approval_life_ms,
            settings.sender_bytes,
            settings.public_url,
        )
