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
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyarrow import compute as pc

from shared.db.queue.schedules.series import CALLED_OFF
from spark_jobs.mart.manifest import MartInvalid, Privacy
from spark_jobs.mart.tables import MartTable

ANSWERS = ("messages", "responses", "agent_messages")
"""Tables with what was said in answer to a message, by its ``message_id``."""

KEY = "POSTROOM_MART_KEY"
_KEY_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class Veil:
    """Applies the privacy of one mart to rows on their way to it.

    Args:
        key: people are hashed with it; empty: they are not hashed.
        messages: ids of the messages of people who were taken out, as far as the replica still has them.
    """

    privacy: Privacy
    key: bytes = b""
    messages: frozenset[str] = frozenset()

    def columns(self, table: MartTable) -> frozenset[str]:
        """The columns that are left out."""
        return frozenset(table.left_out) | (frozenset(table.text) if self.privacy.without_text else frozenset())

    def applied(self, table: MartTable, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that the mart may hold, as it may hold them."""
        if self.privacy.forgotten:
            rows = rows.filter(
                pa.array([not is_forgotten for is_forgotten in self._forgotten(table, rows)], pa.bool_())
            )
        if table.name == "events":
            rows = without_reasons(rows, None if self.privacy.without_text else self.messages)
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

    def takes_out(self, channel: str | None, sender_id: str | None) -> bool:
        """Whether this is a person who was taken out."""
        return bool(channel and sender_id) and self.digest(channel, sender_id) in self.privacy.forgotten

    def is_private_to_one(self, person: str | None) -> bool:
        """Whether a session is private to a person who was taken out; its row does not name the platform."""
        return bool(person) and self.digest("", person) in self.privacy.forgotten

    def digest(self, channel: str | None, sender_id: str | None) -> str:
        """What the manifest keeps of a person who was taken out, so that the next run leaves them out.

        With a key nobody without it can try ids; short ids are soon found by their salted hash alone.
        """
        platform = (channel or "").partition(".")[0]
        text = f"{self.privacy.salt}\n{platform}\n{sender_id}".encode()
        return hmac.new(self.key, text, hashlib.sha256).hexdigest() if self.key else hashlib.sha256(text).hexdigest()

    def with_forgotten(self, channel: str, sender_id: str) -> Privacy:
        """The privacy of the mart once this person is taken out of it."""
        digests = {self.digest(channel, sender_id), self.digest("", sender_id)}
        return replace(self.privacy, forgotten=tuple(sorted({*self.privacy.forgotten, *digests})))

    def _forgotten(self, table: MartTable, rows: pa.RecordBatch) -> list[bool]:
        names = rows.schema.names
        empty: list[str | None] = [None] * rows.num_rows

        def values(name: str) -> list[str | None]:
            return list(rows.column(name).to_pylist()) if name in names else empty

        people = zip(values("channel"), values("sender_id"), values("platform_id"), strict=True)
        by_person = [
            self.takes_out(channel, sender) or self.takes_out(channel, place) for channel, sender, place in people
        ]
        private = [self.is_private_to_one(person) for person in values("private_to")]
        of_message = values("message_id") if table.name in ANSWERS else empty
        return [
            is_theirs or is_private or message in self.messages
            for is_theirs, is_private, message in zip(by_person, private, of_message, strict=True)
        ]


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


def key_of(stored: Privacy, environ: Mapping[str, str] = os.environ) -> Veil:
    """The privacy of the mart there is, with its key from the environment if it needs one."""
    return chosen(stored, without_text=stored.without_text, hash_people=bool(stored.key_check), environ=environ)


def as_masked(rows: pa.RecordBatch, dropped: list[bool]) -> pa.RecordBatch:
    """The rows that are not dropped."""
    return rows.filter(pc.invert(pa.array(dropped, pa.bool_())))


def _check_of(key: bytes) -> str:
    return hmac.new(key, b"postroom mart", hashlib.sha256).hexdigest()[:16]
