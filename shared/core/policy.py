"""What the operator decided about who may talk to whom, apart from what stands on the rows of chats and wirings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self, get_args

from shared.core.settings import NewChats, Settings

SenderPolicy = Literal["strict", "request_approval", "public"]
SENDER_POLICIES: tuple[str, ...] = get_args(SenderPolicy)

_OF_NEW_CHATS: Mapping[NewChats, SenderPolicy] = {"wire": "public", "ask": "request_approval", "refuse": "strict"}


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """See ``Settings``, whose fields these are.

    Attributes:
        new_chats: what becomes of a chat that nobody wired.
        sender_limit: messages a minute that one sender may write, which may come at once; 0: any number.
        chat_limit: the same for everybody in one group together.
        approval_life_ms: how long somebody's yes or no is waited for.
    """

    new_chats: NewChats = "ask"
    sender_limit: int = 120
    chat_limit: int = 600
    approval_life_ms: int = 7 * 24 * 60 * 60 * 1000

    @property
    def of_new_chats(self) -> SenderPolicy:
        """How a chat treats strangers that is there because somebody wrote in it, and of which nobody said how."""
        return _OF_NEW_CHATS[self.new_chats]

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """What the operator set."""
        return cls(settings.new_chats, settings.sender_limit, settings.chat_limit, settings.approval_life_ms)
