"""Telegram's updates as rows: each waits in its queue until its delivery, so a restart loses none.

Messages and edits have one queue per chat, button presses one per person, all other kinds one per kind and chat.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from emulator.platforms.bus import EventBus
from emulator.platforms.config import Clock
from emulator.platforms.store import PlatformStore

DAY_MS = 86_400_000
KEEP_UPDATES = 5000
KINDS = (
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "business_connection",
    "business_message",
    "edited_business_message",
    "deleted_business_messages",
    "guest_message",
    "message_reaction",
    "message_reaction_count",
    "inline_query",
    "chosen_inline_result",
    "callback_query",
    "shipping_query",
    "pre_checkout_query",
    "purchased_paid_media",
    "poll",
    "poll_answer",
    "my_chat_member",
    "chat_member",
    "chat_join_request",
    "chat_boost",
    "removed_chat_boost",
    "managed_bot",
    "subscription",
    "stopped_message_generation",
)
NOT_BY_DEFAULT = frozenset({"chat_member", "message_reaction", "message_reaction_count"})
_LIFE_MS = {
    "callback_query": 150_000,
    "shipping_query": 150_000,
    "pre_checkout_query": 150_000,
    "inline_query": 30_000,
    "chosen_inline_result": 600_000,
}
_PER_CHAT = frozenset({"message", "edited_message", "channel_post", "edited_channel_post"})
_PER_PERSON = frozenset(
    {"callback_query", "inline_query", "chosen_inline_result", "shipping_query", "pre_checkout_query"}
)


class QueuedUpdate(msgspec.Struct, frozen=True):
    """The first update of a queue."""

    update_id: int
    kind: str
    chat: str | None
    message: str | None
    body: str
    expires_ms: int
    attempts: int
    failures: int
    delay_s: int
    due_ms: int


class ButtonPress(msgspec.Struct, frozen=True):
    """A press of a button: instant, chat and person."""

    created_ms: int
    chat: str
    person: str


class UpdateQueue:
    """The rows of ``updates``."""

    def __init__(self, store: PlatformStore, bus: EventBus, clock: Clock) -> None:
        self._store, self._bus, self._clock = store, bus, clock

    def next_id(self) -> int:
        """The id for a new update."""
        update_id = int(self._store.get_or_put("telegram.next_update", "730000001"))
        self._store.put("telegram.next_update", str(update_id + 1))
        return update_id

    def add(
        self,
        update_id: int,
        kind: str,
        update: Mapping[str, Any],
        *,
        chat: str | None,
        person: str | None,
        message: str | None,
        now_ms: int,
    ) -> str:
        """Queue *update* unchanged, and return the name of its queue. It replaces an update with the same id."""
        queue = f"chat:{chat}" if kind in _PER_CHAT else f"person:{person}" if kind in _PER_PERSON else f"{kind}:{chat}"
        body = json.dumps(update, ensure_ascii=False, separators=(",", ":"))
        self._store.conn.execute(
            "INSERT OR REPLACE INTO updates (update_id, kind, queue, chat, message, body, created_ms, expires_ms)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (update_id, kind, queue, chat, message, body, now_ms, now_ms + _LIFE_MS.get(kind, DAY_MS)),
        )
        if update_id % 500 == 0:
            self._store.conn.execute(
                "DELETE FROM updates WHERE state != 'pending' AND update_id NOT IN"
                " (SELECT update_id FROM updates ORDER BY created_ms DESC LIMIT ?)",
                (KEEP_UPDATES,),
            )
        self._publish(update_id)
        return queue

    def requeue(self, update_id: int) -> str | None:
        """Queue a settled update again, and return the name of its queue; None if there is no such update."""
        rows: list[tuple[Any, ...]] = self._store.conn.execute(
            "UPDATE updates SET state = 'pending', due_ms = 0, failures = 0, delay_s = 1, expires_ms = ?"
            " WHERE update_id = ? AND state != 'pending' RETURNING queue",
            (self._clock.now_ms() + DAY_MS, update_id),
        ).fetchall()
        if not rows:
            return None
        self._publish(update_id)
        return str(rows[0][0])

    def make_all_due(self) -> None:
        """Make every pending update due, as after a restart of the real server."""
        self._store.conn.execute("UPDATE updates SET due_ms = 0, failures = 0, delay_s = 1 WHERE state = 'pending'")

    def nonempty_queues(self) -> list[str]:
        """The names of the queues with pending updates."""
        rows = self._store.conn.execute("SELECT DISTINCT queue FROM updates WHERE state = 'pending'")
        return [queue for (queue,) in rows]

    def head(self, queue: str) -> QueuedUpdate | None:
        """The next update of the queue."""
        row = self._store.conn.execute(
            "SELECT update_id, kind, chat, message, body, expires_ms, attempts, failures, delay_s, due_ms FROM updates"
            " WHERE queue = ? AND state = 'pending' ORDER BY update_id LIMIT 1",
            (queue,),
        ).fetchone()
        return QueuedUpdate(*row) if row else None

    def mark_delivered(self, head: QueuedUpdate, status: int | None, took_ms: float) -> None:
        """The endpoint accepted the update."""
        self._store.conn.execute(
            "UPDATE updates SET state = 'delivered', attempts = attempts + 1, status = ?, error = NULL,"
            " took_ms = ?, settled_ms = ? WHERE update_id = ?",
            (status, took_ms, self._clock.now_ms(), head.update_id),
        )
        self._publish(head.update_id)

    def mark_expired(self, head: QueuedUpdate) -> None:
        """The update expired before an attempt."""
        self._store.conn.execute(
            "UPDATE updates SET state = 'dropped', error = coalesce(error, 'expired'), settled_ms = ?"
            " WHERE update_id = ?",
            (self._clock.now_ms(), head.update_id),
        )
        self._publish(head.update_id)

    def mark_failed(
        self, head: QueuedUpdate, *, status: int | None, error: str | None, took_ms: float, delay_s: int, wait_ms: int
    ) -> None:
        """An attempt failed: the next one is due after *wait_ms*. An update that expires before that is dropped."""
        now_ms = self._clock.now_ms()
        self._store.put("telegram.last_error", json.dumps([now_ms, error]))
        is_over = now_ms + wait_ms > head.expires_ms
        self._store.conn.execute(
            "UPDATE updates SET state = ?, attempts = attempts + 1, failures = failures + 1, delay_s = ?, due_ms = ?,"
            " status = ?, error = ?, took_ms = ?, settled_ms = ? WHERE update_id = ?",
            (
                "dropped" if is_over else "pending",
                delay_s,
                now_ms + wait_ms,
                status,
                error,
                took_ms,
                now_ms if is_over else None,
                head.update_id,
            ),
        )
        self._publish(head.update_id)

    def take(self, *, offset: int | None, limit: int) -> list[dict[str, Any]]:
        """The result of getUpdates; updates before *offset* count as delivered. -3 forgets all but the last three."""
        conn, now_ms = self._store.conn, self._clock.now_ms()
        if offset is not None and offset < 0:
            rows = conn.execute(
                "SELECT update_id FROM updates WHERE state = 'pending' ORDER BY update_id DESC LIMIT ?", (-offset,)
            ).fetchall()
            offset = min((int(str(update_id)) for (update_id,) in rows), default=None)
        if offset is not None and offset > 0:
            conn.execute(
                "UPDATE updates SET state = 'delivered', settled_ms = ? WHERE state = 'pending' AND update_id < ?",
                (now_ms, offset),
            )
        bodies: list[tuple[Any, ...]] = conn.execute(
            "SELECT body FROM updates WHERE state = 'pending' AND expires_ms >= ? ORDER BY update_id LIMIT ?",
            (now_ms, limit),
        ).fetchall()
        return [json.loads(body) for (body,) in bodies]

    def pending(self) -> int:
        row = self._store.conn.execute("SELECT count(*) FROM updates WHERE state = 'pending'").fetchone()
        return int(row[0]) if row else 0

    def drop_pending(self) -> None:
        self._store.conn.execute(
            "UPDATE updates SET state = 'dropped', error = 'pending updates were dropped', settled_ms = ?"
            " WHERE state = 'pending'",
            (self._clock.now_ms(),),
        )

    def deliveries(self, *, chat: str | None = None, limit: int = 500) -> list[dict[str, Any]]:
        """The state of the last updates, oldest first."""
        rows = self._store.conn.execute(
            "SELECT update_id FROM updates WHERE (?1 IS NULL OR chat = ?1) ORDER BY update_id DESC LIMIT ?2",
            (chat, limit),
        ).fetchall()
        return [self.delivery(update_id) for (update_id,) in reversed(rows)]

    def delivery(self, update_id: int) -> dict[str, Any]:
        """The state of one update: attempts, last status or error, next attempt."""
        names = (
            "update_id",
            "kind",
            "chat",
            "message",
            "state",
            "attempts",
            "status",
            "error",
            "took_ms",
            "created_ms",
            "due_ms",
            "settled_ms",
        )
        row = self._store.conn.execute(
            "SELECT update_id, kind, chat, message, state, attempts, status, error, took_ms, created_ms, due_ms,"
            " settled_ms FROM updates WHERE update_id = ?",
            (update_id,),
        ).fetchone()
        return {"platform": "telegram", **dict(zip(names, row or (), strict=True))}

    def find_press(self, query_id: str) -> ButtonPress | None:
        """The press behind a callback query."""
        row = self._store.conn.execute(
            "SELECT created_ms, chat, json_extract(body, '$.callback_query.from.id') FROM updates"
            " WHERE kind = 'callback_query' AND json_extract(body, '$.callback_query.id') = ?",
            (query_id,),
        ).fetchone()
        return ButtonPress(row[0], row[1], str(row[2])) if row else None

    def last_error(self) -> tuple[int, str] | None:
        """Instant (ms) and reason of the last failed attempt."""
        kept = self._store.get("telegram.last_error")
        if kept is None:
            return None
        at_ms, reason = json.loads(kept)
        return int(at_ms), str(reason)

    def _publish(self, update_id: int) -> None:
        self._bus.publish("delivery", self.delivery(update_id))
