"""What the suite of all channels needs to know of one: how its platform signs, what it accepts, what it sent once.

``tests/shared/channels/PLATFORM/kit.py`` has it, as ``KIT``; the recorded events are in ``tests/events/PLATFORM``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx

from shared.channels.base import WebhookRequest


@dataclass(frozen=True)
class Recorded:
    """A body that the platform sent, and what must be seen in it: the keys of ``expected.seen``."""

    file: str
    body: bytes
    expect: Mapping[str, Any]


@dataclass(frozen=True)
class ChannelKit:
    """One platform, for tests.

    Attributes:
        environment: the settings of the account that sent the recorded events; its API is nowhere.
        sign: a request with that body, as the platform signs it for that account.
        recorded: at least one for every kind of event that the adapter reads.
        in_context: the keys of ``Event.context`` that the tables name.
        accepts: the answer to any call of a platform that is well, and has every file.
        asks_token: the end of the path by which the adapter asks about its token: a call without an effect.
        direct, group: the ids of a direct chat and a group.
        attachment: one that ``accepts`` serves.
        content: its bytes.
        secrets: the values of the environment that no error may show.
    """

    environment: Mapping[str, str]
    sign: Callable[[bytes], WebhookRequest]
    recorded: Sequence[Recorded]
    in_context: Sequence[str]
    accepts: Callable[[httpx.Request], httpx.Response]
    asks_token: str
    direct: str
    group: str
    attachment: Mapping[str, Any]
    content: bytes
    secrets: Sequence[str]


def kit_of(platform: str) -> ChannelKit:
    """The kit of a platform in the registry."""
    path = Path(__file__).parent / platform / "kit.py"
    assert path.is_file(), (
        f"add tests/shared/channels/{platform}/kit.py with a KIT: then the suite tests {platform} too"
    )
    kit: ChannelKit = import_module(f"tests.shared.channels.{platform}.kit").KIT
    return kit
