"""Which responses go out next where a platform lets fewer through than wait: everybody gets a turn.

Of the chats, those that got the fewest messages lately come first. In a chat the people take turns; what was said
first to one person goes out first. A chat that got nothing lately keeps the order of its rows.
"""

from collections.abc import Collection

import apsw

from shared.db.queue import responses
from shared.db.queue.responses import Head, Response, WaitingResponse
from shared.queue.notices import AHEAD
from shared.queue.platforms.send_room import SendRoom

_LOOK_AHEAD = 2000  # responses of one chat
_MANY_CHATS = 1000  # whose turns are kept


class FairHeads:
    """Chooses for one process.

    Args:
        reader: a connection that only this process's event loop uses.
        room: what the platforms let through; None: anything.
    """

    def __init__(self, reader: apsw.Connection, room: SendRoom | None) -> None:
        self._reader = reader
        self._room = room
        self._opens_at: dict[str, int | None] = {}
        self._chosen: dict[
            str, dict[int, str | None]
        ] = {}  # by channel: the senders of responses chosen for their turn
        self._turns: dict[
            int, dict[str | None, int]
        ] = {}  # by chat and sender: the last response of that sender's turn
        self._turn = 0

    def look(self, channel: str, *, now_ms: int, held: Collection[int]) -> list[int]:
        """The responses that may go out now, one of each chat, in the order in which they do."""
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

    def opens_at(self, channel: str) -> int | None:
        """When to look again because a limit opens, in ms UTC; None: none holds anything back."""
        if self._room is None:
            return None
        found = (self._opens_at.get(channel), self._room.opens_at(channel))
        return min((at_ms for at_ms in found if at_ms is not None), default=None)

    def begin(self, response: Response) -> None:
        """The response is claimed, and its first call begins soon."""
        if self._room is None:
            return
        self._room.reserve(response.channel, response.platform_id)
        chosen = self._chosen.get(response.channel, {})
        if response.id in chosen:
            if len(self._turns) > _MANY_CHATS:
                self._turns.clear()
            self._turn += 1
            self._turns.setdefault(response.chat_id, {})[chosen.pop(response.id)] = self._turn

    def end(self, response: Response) -> None:
        """The send of the response has ended."""
        if self._room is not None:
            self._room.free(response.channel, response.platform_id)

    def _fair(self, channel: str, head: Head, now_ms: int) -> int:
        """The response of the chat whose turn it is."""
        waiting = responses.waiting(self._reader, channel, head.chat_id, now_ms=now_ms, limit=_LOOK_AHEAD)
        chosen = choose(waiting, self._turns.get(head.chat_id, {}))
        if chosen is None:
            return head.id
        self._chosen[channel][chosen.id] = chosen.sender_id
        if len({each.sender_id for each in waiting}) == 1:  # nobody waits for another
            self._turns.pop(head.chat_id, None)
        return chosen.id


def choose(waiting: list[WaitingResponse], turns: dict[str | None, int]) -> WaitingResponse | None:
    """Of the responses of a chat, oldest first, the one whose turn it is; None: the oldest, whatever it is. Pure.

    Args:
        turns: the number of each sender's last turn, the highest of the last one.
    """
    if not waiting or waiting[0].has_begun:
        return None
    firsts: dict[tuple[bool, str | None], WaitingResponse] = {}
    for each in waiting:
        firsts.setdefault((each.kind != AHEAD, each.sender_id), each)
    due = [each for each in firsts.values() if each.is_due]
    return min(due, key=lambda each: (each.kind != AHEAD, turns.get(each.sender_id, 0), each.id), default=None)
