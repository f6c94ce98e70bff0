"""Which responses go out next when more are waiting than the platform's limits allow: people take turns.

Chats that got the fewest messages lately come first. Within a chat, responses keep the order of their rows. Many
answers to one person would delay those to others: then each person gets one in each round. Answers to the same person
always keep their order.
"""

from collections import Counter
from collections.abc import Collection

import apsw
import msgspec

from shared.db.queue import responses
from shared.db.queue.responses import Head, Response, WaitingResponse
from shared.queue.notices import AHEAD
from shared.queue.platforms.send_room import SendRoom

_LOOK_AHEAD = 2000  # responses of one chat
_MANY_CHATS = 1000  # whose rounds are kept
_MANY_ANSWERS = 5  # that wait for one person; a platform lets as many through at once


class Rounds(msgspec.Struct):
    """The rounds of a chat. In each round, every waiting person gets one response.

    Attributes:
        now: the round of the last response.
        following: by sender: the first round from *now* on without a response to that person.
    """

    now: int = 0
    following: dict[str | None, int] = msgspec.field(default_factory=dict)

    def of(self, sender_id: str | None) -> int:
        """The round of the next response to this person."""
        return max(self.now, self.following.get(sender_id, 0))

    def take(self, sender_id: str | None) -> None:
        """A response to this person goes out."""
        self.now = self.of(sender_id)
        self.following[sender_id] = self.now + 1


class FairHeads:
    """Chooses for one process.

    Args:
        reader: a connection that only this process's event loop uses.
        room: the room that the platforms' limits leave; None: there are no limits.
    """

    def __init__(self, reader: apsw.Connection, room: SendRoom | None) -> None:
        self._reader = reader
        self._room = room
        self._opens_at: dict[str, int | None] = {}
        self._chosen: dict[str, dict[int, str | None]] = {}  # by channel: the senders of responses chosen for a round
        self._rounds: dict[int, Rounds] = {}  # by chat

    def look(self, channel: str, *, now_ms: int, held: Collection[int]) -> list[int]:
        """The responses that may go out now, one for each chat, in their order."""
        heads = responses.due_heads(self._reader, channel, now_ms=now_ms, held=held)
        if self._room is None:
            return [head.id for head in heads]
        self._chosen[channel] = {}
        closed = [self._room.opens_at(channel, head.platform_id) for head in heads]
        self._opens_at[channel] = min((at_ms for at_ms in closed if at_ms is not None), default=None)
        fitting = [head for head, opens_at in zip(heads, closed, strict=True) if opens_at is None]
        used = {head.id: self._room.used(channel, head.platform_id) for head in fitting}
        fitting.sort(key=lambda head: (used[head.id], head.id))
        return [self._fair(channel, head, now_ms) if used[head.id] else head.id for head in fitting]

    def room(self, channel: str, room: int) -> int:
        """How many sends may begin, of *room*."""
        left = self._room.left(channel) if self._room is not None else None
        return room if left is None else min(room, left)

    def opens_at(self, channel: str, *, room: int) -> int | None:
        """When a limit ends that holds responses back, in ms UTC; None: no limit does.

        Without *room*, the end of a chat's limit changes nothing; the caller waits for the end of a send.
        """
        if self._room is None:
            return None
        found = (self._opens_at.get(channel) if room > 0 else None, self._room.opens_at(channel))
        return min((at_ms for at_ms in found if at_ms is not None), default=None)

    def begin(self, response: Response) -> None:
        """The response is claimed, and its first call begins soon."""
        if self._room is None:
            return
        self._room.reserve(response.channel, response.platform_id)
        chosen = self._chosen.get(response.channel, {})
        if response.id in chosen:
            if len(self._rounds) > _MANY_CHATS:
                self._rounds.clear()
            self._rounds.setdefault(response.chat_id, Rounds()).take(chosen.pop(response.id))

    def end(self, response: Response) -> None:
        """The send of the response has ended."""
        if self._room is not None:
            self._room.free(response.channel, response.platform_id)

    def _fair(self, channel: str, head: Head, now_ms: int) -> int:
        """The chat's next response."""
        waiting = responses.waiting(self._reader, channel, head.chat_id, now_ms=now_ms, limit=_LOOK_AHEAD)
        if not has_flood(waiting):
            self._rounds.pop(head.chat_id, None)
        chosen = choose(waiting, self._rounds.get(head.chat_id, Rounds()), is_group=bool(head.is_group))
        if chosen is None:
            return head.id
        self._chosen[channel][chosen.id] = chosen.sender_id
        return chosen.id


def has_flood(waiting: list[WaitingResponse]) -> bool:
    """Whether many responses to one person wait. Pure."""
    return any(count > _MANY_ANSWERS for count in Counter(each.sender_id for each in waiting).values())


def choose(waiting: list[WaitingResponse], rounds: Rounds, *, is_group: bool) -> WaitingResponse | None:
    """The next of a chat's responses, which are given oldest first; None: the oldest. Pure.

    In a direct chat, all responses are for one person, also those that answer nothing, such as a line of progress.
    """
    if not waiting or waiting[0].has_begun:
        return None
    if ahead := next((each for each in waiting if each.kind == AHEAD and each.is_due), None):
        return ahead
    if not (is_group and has_flood(waiting)):
        return None
    firsts: dict[str | None, WaitingResponse] = {}
    for each in waiting:
        firsts.setdefault(each.sender_id, each)
    due = [each for each in firsts.values() if each.is_due]
    return min(due, key=lambda each: (rounds.of(each.sender_id), each.id), default=None)
