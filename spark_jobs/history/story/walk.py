"""Walks the positions of a replica for one message, with a bounded number of restores.

The newest position tells when things happened: its events, and the row if it is still there. Then those positions are
restored that have what happened, and, where the row is gone, those around its end. Every restored copy is in the cache.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shared.core.errors import ConfigInvalid, PermanentError
from spark_jobs import replicas
from spark_jobs.history.spans import instant_of, told
from spark_jobs.history.story.choice import halves, middle, thinned, wished
from spark_jobs.history.story.sighting import (
    KnownMessage,
    Sighting,
    approvals_before,
    events_of,
    find,
    opened,
    sight,
)
from spark_jobs.replicas import Pin, PositionMissing, RestoreFailed

LEAST_POSITIONS = 3
_FOR_THE_END = 3  # restores that are kept for the search of the end of the row

_log = logging.getLogger("postroom.replicas")


class MessageMissing(PositionMissing):
    """No position that was read has the message."""


class MessageAmbiguous(ConfigInvalid):
    """The platform's id belongs to several messages."""


@dataclass(frozen=True, slots=True)
class PastStory:
    """What the positions have about a message, oldest first.

    Args:
        there_are: how many positions the replica has.
        failures: why positions that should have been read could not be restored.
        oldest, newest: of those.
    """

    url: str
    message: KnownMessage
    sightings: Sequence[Sighting]
    there_are: int
    oldest: Pin
    newest: Pin
    failures: Sequence[PermanentError] = ()


@dataclass(slots=True)
class _Walk:
    """The positions, and what is known so far. *has_row*: for each position that was read."""

    ref: str
    pins: list[Pin]
    most: int
    cache_dir: str | None
    known: KnownMessage | None = None
    moments: set[int] = field(default_factory=set)
    has_row: dict[Pin, bool] = field(default_factory=dict)
    failures: list[PermanentError] = field(default_factory=list)

    @property
    def left(self) -> int:
        """How many more positions may be read."""
        return self.most - len(self.has_row) - len(self.failures)

    def read(self, pin: Pin) -> None:
        """Restore a position, and learn from it; one that can't be restored is left out."""
        if pin in self.has_row or pin not in self.pins or self.left <= 0:
            return
        try:
            path = replicas.ensure_local(pin, self.cache_dir)
        except (PositionMissing, RestoreFailed) as error:
            _log.warning("replica.position_unreadable txid=%s", pin.txid)
            self.failures.append(error)
            self.pins.remove(pin)
            return
        self.has_row[pin] = self._learn(path)

    def _learn(self, path: Path) -> bool:
        with opened(path) as conn:
            found = find(conn, self.ref if self.known is None else self.known.message_id)
            if len({each.message_id for each in found}) > 1:
                ids = ", ".join(f"{each.message_id} (agent {each.agent})" for each in found)
                raise MessageAmbiguous(f"{self.ref!r} is the platform's id of several messages: name one of {ids}")
            if found:
                self.known = found[0]
                self.moments |= {found[0].created_at, found[0].updated_at}
            of = self.known.message_id if self.known else self.ref
            self.moments |= {event.at_ms for event in events_of(conn, of, in_data=self.known is not None)}
        return bool(found)


def walk(url: str, ref: str, *, epoch: str | None = None, most: int = 8, cache_dir: str | None = None) -> PastStory:
    """The story of one message.

    Args:
        ref: its id, or its id on its platform.
        epoch: only in this history.
        most: how many positions may be restored, ``LEAST_POSITIONS`` or more.

    Raises:
        MessageMissing: no position that was read has it.
        MessageAmbiguous: the platform's id belongs to several messages; their ids are in the error.
        as :func:`spark_jobs.replicas.resolve` and :func:`spark_jobs.replicas.ensure_local`.
    """
    pins = sorted(replicas.every_position(url, epoch), key=instant_of)
    there_are, oldest, newest = len(pins), pins[0], pins[-1]
    state = _Walk(ref, pins, most, cache_dir)
    state.read(newest)
    if there_are <= most:
        for pin in list(pins):
            state.read(pin)
    if not state.moments:
        _search_other_histories(state)
    _read_moments(state, max(state.left - _FOR_THE_END, state.left // 2))
    _search_row(state)
    _search_end(state)
    _read_moments(state, state.left)
    if not state.has_row:
        raise state.failures[-1]
    if state.known is None:
        raise _missing(state, there_are, oldest, newest)
    return PastStory(url, state.known, _sightings(state, state.known), there_are, oldest, newest, state.failures)


def _search_other_histories(state: _Walk) -> None:
    """Read the newest position of each earlier history, until one knows the message."""
    for pin in reversed({pin.epoch: pin for pin in state.pins}.values()):
        if not state.moments:
            state.read(pin)


def _search_row(state: _Walk) -> None:
    """Read positions far from each other until one has the row."""
    pins = list(state.pins)
    for number in halves(len(pins)):
        if state.known is not None or state.left <= 0:
            return
        state.read(pins[number])


def _read_moments(state: _Walk, most: int) -> None:
    """Read up to *most* positions that have what happened."""
    instants = [int(instant_of(pin).timestamp() * 1000) for pin in state.pins]
    unread = [number for number in wished(instants, state.moments) if state.pins[number] not in state.has_row]
    for pin in [state.pins[number] for number in thinned(unread, max(most, 0))]:
        state.read(pin)


def _search_end(state: _Walk) -> None:
    """Halve the stretch between the last position that has the row and the next that was read, within one history."""
    while state.left > 0:
        read = [number for number, pin in enumerate(state.pins) if pin in state.has_row]
        having = [number for number in read if state.has_row[state.pins[number]]]
        lacking = [number for number in read if having and number > having[-1]]
        between = middle(having[-1], lacking[0]) if lacking else None
        if between is None:
            return
        state.read(state.pins[between])


def _sightings(state: _Walk, known: KnownMessage) -> list[Sighting]:
    """What each position that was read has, oldest first."""
    paths = {pin: replicas.ensure_local(pin, state.cache_dir) for pin in state.pins if pin in state.has_row}
    approvals = set().union(*(approvals_before(path, known) for path in paths.values()))
    return [sight(path, pin, known, approvals) for pin, path in paths.items()]


def _missing(state: _Walk, there_are: int, oldest: Pin, newest: Pin) -> MessageMissing:
    read = f"{len(state.has_row)} of {there_are} positions, from {told(oldest)} to {told(newest)}"
    if state.moments:
        return MessageMissing(
            f"{state.ref} has events, and no row in the positions that were read ({read}): they are merged since, or "
            "the row was there too briefly; read more of them with --positions"
        )
    return MessageMissing(
        f"there is no message {state.ref!r} in the positions that were read ({read}): check the id; a message that was "
        "pruned before the oldest position may be in a mart (docs/spark.md); read more positions with --positions"
    )
