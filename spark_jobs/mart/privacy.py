"""What does not reach a mart: text, people's names and ids in the clear, and people who were taken out.

A person is a platform and an id: the accounts of a platform (``telegram``, ``telegram.sales``) share their people.
Hashed values are HMAC-SHA256 with a key that stays outside the mart. Equal people have equal hashes, so they can be
counted and followed; without the key nobody can try ids.
"""

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa
from pyarrow import compute as pc

from shared.db.queue.schedules.series import CALLED_OFF
from spark_jobs.mart.manifest import MartInvalid, Privacy
from spark_jobs.mart.quotations import without_quotations
from spark_jobs.mart.tables import MartTable
from spark_jobs.mart.traces import Traces

ANSWERS = ("messages", "responses", "agent_messages")
"""Tables with what was said in answer to a message, by its ``message_id``."""
LINES = "chat_messages"

KEY = "POSTROOM_MART_KEY"
_KEY_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class Veil:
    """Applies the privacy of one mart to rows on their way to it.

    Args:
        key: people are hashed with it; empty: they are not hashed.
        traces: of people who were taken out, as far as the replica still has them.
    """

    privacy: Privacy
    key: bytes = b""
    traces: Traces = field(default_factory=Traces)

    def columns(self, table: MartTable) -> frozenset[str]:
        """The columns that are left out."""
        return frozenset(table.left_out) | (frozenset(table.text) if self.privacy.without_text else frozenset())

    def applied(self, table: MartTable, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that the mart may hold, as it may hold them."""
        rows = self.without_forgotten(table, rows)
        if table.name == "events" and self.privacy.without_text:
            rows = without_reasons(rows, None)
        if self.key:
            for name in set(table.people) & set(rows.schema.names):
                index = rows.schema.get_field_index(name)
                hashed = pa.array([self.person(value) for value in rows.column(index).to_pylist()], pa.string())
                rows = rows.set_column(index, name, hashed)
        return rows

    def person(self, value: str | None) -> str | None:
        """A name or an id as the mart holds it."""
        if not self.key or not value:
            return value
        return hmac.new(self.key, value.encode(), hashlib.sha256).hexdigest()[:32]

    def without_forgotten(self, table: MartTable, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows without those of people who were taken out, and without what others quote of them.

        Returns:
            *rows* itself where nothing of them is in it. People may be hashed already.
        """
        if not self.privacy.forgotten:
            return rows
        dropped = self._forgotten(table, rows)
        kept = as_masked(rows, dropped) if any(dropped) else rows
        return without_reasons(kept, self.traces.messages) if table.name == "events" else self._unquoted(table, kept)

    def takes_out(self, channel: str | None, value: str | None) -> bool:
        """Whether this is an id of a person who was taken out, in the clear or as the mart holds it."""
        if not channel or not value:
            return False
        digests = {self.digest(channel, value), self.digest(channel, self.person(value))}
        return not digests.isdisjoint(self.privacy.forgotten)

    def is_private_to_one(self, person: str | None) -> bool:
        """Whether a session is private to a person who was taken out; its row does not name the platform."""
        if not person:
            return False
        return not {self.digest("", person), self.digest("", self.person(person))}.isdisjoint(self.privacy.forgotten)

    def digest(self, channel: str | None, value: str | None) -> str:
        """What the manifest keeps of an id of a person who was taken out, so that the next run leaves it out.

        With a key nobody without it can try ids; short ids are soon found by their salted hash alone.
        """
        return _digest(self.key, self.privacy.salt, (channel or "").partition(".")[0], value or "")

    def with_forgotten(self, ids: Iterable[tuple[str, str]]) -> "Veil":
        """The same, once a person is taken out.

        Args:
            ids: each of the person's, as the mart holds it, with its channel.
        """
        digests = {self.digest(each, value) for channel, value in ids for each in (channel, "")}
        forgotten = tuple(sorted({*self.privacy.forgotten, *digests}))
        return replace(self, privacy=replace(self.privacy, forgotten=forgotten))

    def _forgotten(self, table: MartTable, rows: pa.RecordBatch) -> list[bool]:
        names = ("channel", "sender_id", "platform_id", "private_to", "message_id", "in_reply_to", "id")
        values = _columns(rows, *names)
        is_answer, is_line = table.name in ANSWERS, table.name == LINES
        return [
            self.takes_out(channel, sender)
            or self.takes_out(channel, place)
            or self.is_private_to_one(person)
            or (is_answer and (message in self.traces.messages or asked in self.traces.rows))
            or (is_line and row in self.traces.lines)
            for channel, sender, place, person, message, asked, row in zip(*values, strict=True)
        ]

    def _unquoted(self, table: MartTable, rows: pa.RecordBatch) -> pa.RecordBatch:
        if "channel" not in rows.schema.names:
            return rows
        channels, places, answered = _columns(rows, "channel", "platform_id", "reply_to")
        for name in set(table.text) & set(rows.schema.names):
            before = rows.column(name).to_pylist()
            after = [
                without_quotations(text, partial(self.takes_out, channel), partial(self._is_quoted, place, row))
                for text, channel, place, row in zip(before, channels, places, answered, strict=True)
            ]
            if after != before:
                rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(after, pa.string()))
        return rows

    def _is_quoted(self, place: str | None, row: int | None, quoted: Mapping[str, Any]) -> bool:
        return row in self.traces.rows or (place or "", str(quoted.get("message_id"))) in self.traces.quotable


@lru_cache(65_536)
def _digest(key: bytes, salt: str, platform: str, value: str) -> str:
    text = f"{salt}\n{platform}\n{value}".encode()
    return hmac.new(key, text, hashlib.sha256).hexdigest() if key else hashlib.sha256(text).hexdigest()


def _columns(rows: pa.RecordBatch, *names: str) -> list[list[Any]]:
    """The values of each column; of one that there is not, nothing."""
    known = rows.schema.names
    return [rows.column(name).to_pylist() if name in known else [None] * rows.num_rows for name in names]


def without_reasons(rows: pa.RecordBatch, messages: frozenset[str] | None) -> pa.RecordBatch:
    """The same rows of ``events``, or new ones where reasons went: of *messages*, or of all where that is None."""
    if messages is not None and not messages:
        return rows
    data = rows.column("data").to_pylist()
    found = [
        without_reason(value) if messages is None or message in messages else value
        for message, value in zip(rows.column("message_id").to_pylist(), data, strict=True)
    ]
    if found == data:
        return rows
    index = rows.schema.get_field_index("data")
    return rows.set_column(index, "data", pa.array(found, pa.string()))


def without_reason(data: str) -> str:
    """``events.data`` without the reason, which may quote what somebody wrote. The kind of the failure stays."""
    if '"reason"' not in data:
        return data
    facts = json.loads(data)
    if facts.pop("reason", None) == CALLED_OFF:
        facts.setdefault("failure", "called_off")  # events of earlier releases tell it only by the reason
    return json.dumps(facts)


def chosen(
    stored: Privacy | None, *, without_text: bool, hash_people: bool, environ: Mapping[str, str] = os.environ
) -> Veil:
    """The privacy of a new mart, or that of the mart there is, if it is the one asked for.

    Raises:
        MartInvalid: the mart has another one, or the key is missing, short, or another.
    """
    key = environ.get(KEY, "").encode() if hash_people else b""
    if hash_people and len(key) < _KEY_CHARACTERS:
        raise MartInvalid(f"--hash-people needs a secret of {_KEY_CHARACTERS} characters or more in {KEY}; keep it")
    check = _check_of(key) if key else ""
    if stored is None:
        return Veil(Privacy(without_text=without_text, key_check=check, salt=secrets.token_hex(16)), key)
    if (stored.without_text, bool(stored.key_check)) != (without_text, hash_people):
        options = ["--without-text"] * stored.without_text + ["--hash-people"] * bool(stored.key_check)
        was = " and ".join(options) or "neither --without-text nor --hash-people"
        raise MartInvalid(f"this mart was begun with {was}: use the same, or publish into another place")
    if stored.key_check != check:
        raise MartInvalid(f"{KEY} is not the key that this mart was begun with: set that one")
    return Veil(stored, key)


def key_of(stored: Privacy) -> Veil:
    """The privacy of the mart there is, with its key from the environment if it needs one."""
    return chosen(stored, without_text=stored.without_text, hash_people=bool(stored.key_check))


def as_masked(rows: pa.RecordBatch, dropped: list[bool]) -> pa.RecordBatch:
    """The rows that are not dropped."""
    return rows.filter(pc.invert(pa.array(dropped, pa.bool_())))


def _check_of(key: bytes) -> str:
    return hmac.new(key, b"postroom mart", hashlib.sha256).hexdigest()[:16]
