"""A platform that is played by its channel's kit, and sends to it."""

import asyncio
from dataclasses import dataclass

from shared.channels import registry
from shared.channels.base import (
    Outgoing,
)
from tests.fake_client import FakeClient
from tests.shared.channels.kits import kit_of

NOW = 1_795_168_000_000


@dataclass
class Calls:
    """A platform that answers by the kit, or by *answer*; it keeps what it was asked, and what the pacing saw."""

    name: str
    answer: object = None

    def __post_init__(self):
        self.requests = []
        self.admitted = []
        self.left = 0  # calls that have their answer, or will get none
        self.client = FakeClient(self._play, pacing=self)

    def _play(self, request):
        self.requests.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return kit_of(self.name).accepts(request) if self.answer is None else self.answer

    async def admit(self, scopes):
        self.admitted.append(scopes)

    def leave(self, scopes):
        self.left += 1

    async def record(self, scopes, limits):
        pass


def outgoing(name, **changes):
    usual = {"response_id": 1, "part_index": 0, "platform_id": kit_of(name).direct, "thread_id": None}
    usual |= {"reply_to": None, "context": {}, "asked_at_ms": NOW, "is_first": True}
    return Outgoing(**usual | changes)


def send(name, part, calls=None, **changes):
    calls = calls or Calls(name)
    return asyncio.run(registry.get(name).send(part, outgoing(name, **changes), calls.client, now_ms=NOW))
