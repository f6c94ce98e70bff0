"""Discord's interactions as rows. A token lives as long as its row says, so it survives a restart."""

import json
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

from emulator.platforms.bus import EventBus
from emulator.platforms.config import PlatformsConfig
from emulator.platforms.errors import ActionRefused
from emulator.platforms.store import FakeChat, FakeMessage, FakePerson, PlatformStore
from shared.core import logs

NO_ANSWER = "The application did not respond"


class InteractionRow(msgspec.Struct, frozen=True):
    """One row: *state* is ``waiting``, ``deferred``, ``answered`` or ``dead``.

    *message* is the question, or the message with the component *custom_id*. *original* is the id of the answer.
    *kind* is ``interaction`` (a command), ``press``, ``select`` or ``modal``; *particular* is the part of the body that
    is not derived from the message, as JSON.
    """

    id: str
    token: str
    channel: str
    person: str
    message: str
    created_ms: int
    state: str
    original: str | None
    status: int | None
    error: str | None
    took_ms: float | None
    custom_id: str | None
    kind: str
    particular: str | None


_COLUMNS = (
    "id, token, channel, person, message, created_ms, state, original, status, error, took_ms, custom_id,"
    " coalesce(kind, iif(custom_id IS NULL, 'interaction', 'press')), particular"
)


class InteractionRows:
    """The rows of ``interactions``; publishes every change."""

    def __init__(self, config: PlatformsConfig, store: PlatformStore, bus: EventBus) -> None:
        self._config, self._store, self._bus = config, store, bus
        self._clock = config.clock

    def add(
        self,
        interaction_id: str,
        chat: FakeChat,
        person: FakePerson,
        message: FakeMessage,
        custom_id: str | None,
        *,
        particular: Mapping[str, Any] | None,
        kind: str,
    ) -> InteractionRow:
        """A person used a command or a component: a new interaction waits for its first answer."""
        token, now_ms = secrets.token_urlsafe(120), self._clock.now_ms()
        kept = None if particular is None else json.dumps(particular, ensure_ascii=False)
        self._store.conn.execute(
            "INSERT INTO interactions (id, token, channel, person, message, created_ms, custom_id, kind, particular)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (interaction_id, token, chat.id, person.id, message.id, now_ms, custom_id, kind, kept),
        )
        self._publish(interaction_id)
        return self.get(interaction_id)

    def get(self, interaction_id: str) -> InteractionRow:
        found = self._one("id", interaction_id)
        if found is None:
            raise ActionRefused(f"there is no interaction {interaction_id}")
        return found

    def by_token(self, token: str) -> InteractionRow | None:
        return self._one("token", token)

    def _one(self, column: str, value: str) -> InteractionRow | None:
        sql = {"id": "WHERE id = ?", "token": "WHERE token = ?"}[column]
        row = self._store.conn.execute(f"SELECT {_COLUMNS} FROM interactions {sql}", (value,)).fetchone()  # noqa: S608
        return InteractionRow(*row) if row else None

    def keep_modal(self, interaction_id: str, modal: Mapping[str, Any]) -> None:
        """Keep the form that answered an interaction, until the person sends it."""
        self._store.conn.execute(
            "UPDATE interactions SET modal = ? WHERE id = ?", (json.dumps(modal, ensure_ascii=False), interaction_id)
        )

    def modal(self, interaction_id: str) -> dict[str, Any] | None:
        """The form that answered an interaction."""
        row = self._store.conn.execute("SELECT modal FROM interactions WHERE id = ?", (interaction_id,)).fetchone()
        return json.loads(row[0]) if row and row[0] else None

    def record_status(self, interaction: InteractionRow, status: int, took_ms: float) -> None:
        """Record the status of the endpoint's HTTP answer."""
        self._store.conn.execute(
            "UPDATE interactions SET status = ?, took_ms = ? WHERE id = ?", (status, took_ms, interaction.id)
        )

    def mark_acknowledged(self, interaction: InteractionRow, *, is_deferred: bool, original: str) -> None:
        """The first answer arrived: *original* is the message behind ``@original`` from now on."""
        self._store.conn.execute(
            "UPDATE interactions SET state = ?, original = ? WHERE id = ?",
            ("deferred" if is_deferred else "answered", original, interaction.id),
        )
        self._publish(interaction.id)

    def mark_answered(self, interaction: InteractionRow) -> None:
        """The answer that was deferred arrived."""
        self._store.conn.execute("UPDATE interactions SET state = 'answered' WHERE id = ?", (interaction.id,))
        self._publish(interaction.id)

    def mark_dead(self, interaction: InteractionRow, status: int | None, error: str) -> None:
        """No valid answer arrived in time. An interaction with an earlier callback stays alive."""
        rows = self._store.conn.execute(
            "UPDATE interactions SET state = 'dead', status = coalesce(?, status), error = ?"
            " WHERE id = ? AND state = 'waiting' RETURNING id",
            (status, error, interaction.id),
        ).fetchall()
        if rows:
            logs.get().warning("discord.interaction_died", interaction=interaction.id, reason=error)
            self._publish(interaction.id)

    def fail_waiting(self) -> None:
        """Mark interactions dead that still waited when the last run ended."""
        rows: list[tuple[Any, ...]] = self._store.conn.execute(
            f"SELECT {_COLUMNS} FROM interactions WHERE state = 'waiting'"  # noqa: S608
        ).fetchall()
        for row in rows:
            self.mark_dead(InteractionRow(*row), None, "the emulator stopped before an answer arrived")

    def deliveries(self, *, channel: str | None = None, limit: int = 500) -> list[dict[str, Any]]:
        """The state of the last interactions, oldest first, without their tokens."""
        rows = self._store.conn.execute(
            f"SELECT {_COLUMNS} FROM interactions WHERE (?1 IS NULL OR channel = ?1)"  # noqa: S608
            " ORDER BY created_ms DESC, id DESC LIMIT ?2",
            (channel, limit),
        ).fetchall()
        return [self.delivery(InteractionRow(*row)) for row in reversed(rows)]

    def delivery(self, interaction: InteractionRow) -> dict[str, Any]:
        """The state of one interaction, and the remaining life of its token."""
        states: Mapping[str, str] = {"waiting": "pending", "dead": "dropped"}
        left_ms = interaction.created_ms + self._config.token_life_ms - self._clock.now_ms()
        return {
            "platform": "discord",
            "interaction": interaction.id,
            "kind": interaction.kind,
            "chat": interaction.channel,
            "message": interaction.message,
            "state": states.get(interaction.state, "delivered"),
            "phase": interaction.state,
            "attempts": 0 if interaction.state == "waiting" else 1,
            "status": interaction.status,
            "error": interaction.error,
            "took_ms": interaction.took_ms,
            "created_ms": interaction.created_ms,
            "original": interaction.original,
            "token_left_ms": max(0, left_ms) if interaction.state != "dead" else 0,
            "notice": NO_ANSWER if interaction.state == "dead" else None,
        }

    def _publish(self, interaction_id: str) -> None:
        self._bus.publish("delivery", self.delivery(self.get(interaction_id)))
