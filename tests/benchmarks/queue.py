"""Section 1 in one process: enqueue, claim and settle, the backlog, WAL pages; beside them raw and the peers."""

import struct
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import apsw

from shared.db.engine.connection import rows
from tests.benchmarks.harness.measure import Line, Scale, Spread, at_least, at_most, interleave, rate, ratios, watched
from tests.benchmarks.harness.store import NOW, TEXT, Store
from tests.benchmarks.peers import peers
from tests.benchmarks.raw import Raw

LEVELS = ("NORMAL", "FULL")
_BACKLOG = 500
_PAGES_OF = 400  # messages whose pages are counted
_WAL_HEADER, _FRAME = 32, 24 + 4096


def enqueue(scale: Scale) -> Iterator[Line]:
    """One message, one transaction."""
    for level in LEVELS:
        yield from _enqueue(scale, level)


def _enqueue(scale: Scale, level: str) -> Iterator[Line]:
    folder = scale.place(f"enqueue-{level}")
    raw, store = Raw(folder / "raw.db", level), Store(folder / "ours.db", level)
    steps: dict[str, Callable[[], int]] = {
        "raw": partial(raw.insert_one, TEXT, NOW),
        "ours": store.insert_one,
        "ours with a key": partial(store.insert_one, key=True),
        "raw with the event's row": partial(raw.insert_with_event, TEXT, NOW),
        **{name: _one(partial(peer.put, TEXT)) for name, peer in peers(folder, level).items()},
    }
    seen = interleave({name: rate(step, scale.slice_s) for name, step in steps.items()}, scale.rounds)
    yield watched(
        f"enqueue, one per transaction, {level}",
        ratios(seen["ours"], seen["raw"]),
        beside=_beside(seen, "ours with a key"),
        reason="beyond raw's insert, ours takes 4 us in Python around the statement, 3 us in SQLite for a wider row, "
        "partial indexes, checks and foreign keys, 2 us for BEGIN and COMMIT as statements of their own, and 2 us for "
        "the write gate; the random id and its index cost both the same"
        + ("; both make the same system calls but for two flocks, so the rest is the disk" if level == "FULL" else ""),
    )
    yield watched(
        f"the same with a deduplication key, {level}",
        ratios(seen["ours with a key"], seen["raw"]),
        beside=f"{_per_second(seen['ours with a key'])}/s",
        reason="as above, and the unique index on the platform's events",
    )


def enqueue_many(scale: Scale) -> Iterator[Line]:
    """A hundred messages, one transaction."""
    for level in LEVELS:
        folder = scale.place(f"many-{level}")
        raw, store = Raw(folder / "raw.db", level), Store(folder / "ours.db", level)
        slices = {
            "raw": rate(partial(raw.insert_many, TEXT, NOW, 100), scale.slice_s),
            "ours": rate(partial(store.insert_many, 100), scale.slice_s),
        }
        seen = interleave(slices, scale.rounds)
        yield watched(
            f"enqueue, 100 per transaction, {level}",
            ratios(seen["ours"], seen["raw"]),
            beside=_beside(seen),
            reason="a row costs SQLite 1.9 us more than a row without an id: its width 0.7, partial indexes 0.4, "
            "checks 0.4, foreign keys 0.2; 3.6 us for an id that is free; and 1 us more for its Python object",
        )


def claim_and_settle(scale: Scale) -> Iterator[Line]:
    """One turn: the claim; then the completion, an answer for each message, history, session and events."""
    for size in (1, 20):
        for level in LEVELS:
            yield _claim_and_settle(scale, size, level)


def _claim_and_settle(scale: Scale, size: int, level: str) -> Line:
    folder = scale.place(f"turn-{size}-{level}")
    raw, store = Raw(folder / "raw.db", level), Store(folder / "ours.db", level)
    raw.insert_many(TEXT, NOW, _BACKLOG)
    store.fill(_BACKLOG)
    # As many messages come in, untimed, as each turn takes: the backlog keeps its size, and each turn announces them.
    slices = {
        "raw": rate(partial(raw.turn, size, NOW), scale.slice_s, prepare=partial(raw.insert_many, TEXT, NOW, size)),
        "ours": rate(partial(store.turn, size), scale.slice_s, prepare=partial(store.insert_many, size)),
    }
    if size == 1:
        for name, peer in peers(folder, level).items():
            for _ in range(_BACKLOG):
                peer.put(TEXT)
            slices[name] = rate(_one(peer.finish), scale.slice_s, prepare=partial(peer.put, TEXT))
    seen = interleave(slices, scale.rounds)
    what = "one message" if size == 1 else f"a batch of {size}"
    return watched(
        f"claim + settle, {what}, {level}",
        ratios(seen["ours"], seen["raw"]),
        beside=_beside(seen) + ("; peers only claim and complete" if size == 1 else ""),
        reason="ours writes the same rows as raw, with more indexes, foreign keys, checks, and a Python object each",
    )


def backlog(scale: Scale) -> Iterator[Line]:
    """Claim and settle one message of a session in which many wait, against one in which 500 wait."""
    folder = scale.place("backlog")
    depths = (_BACKLOG, 20_000, scale.few(200_000, 40_000))
    slices = {}
    for depth in depths:
        raw, store = Raw(folder / f"raw-{depth}.db", "NORMAL"), Store(folder / f"{depth}.db", "NORMAL")
        for _ in range(depth // _BACKLOG):
            raw.insert_many(TEXT, NOW, _BACKLOG)
        store.fill(depth)
        slices[str(depth)] = rate(partial(store.turn, 1), scale.slice_s, prepare=store.insert_one)
        slices[f"raw {depth}"] = rate(partial(raw.turn, 1, NOW), scale.slice_s, partial(raw.insert_one, TEXT, NOW))
    seen = interleave(slices, scale.rounds)
    for depth in depths[1:]:
        yield at_least(
            f"claim + settle with {depth:,} waiting / with {_BACKLOG}, NORMAL",
            ratios(seen[str(depth)], seen[str(_BACKLOG)]),
            0.9,
            beside=f"{_per_second(seen[str(depth)])}/s against {_per_second(seen[str(_BACKLOG)])}/s; "
            f"raw's own {ratios(seen[f'raw {depth}'], seen[f'raw {_BACKLOG}']):.2f}",
            reason="SQLite takes as many steps as with 500, but the oldest rows lie far from the newest; raw too reads "
            "and checkpoints one or two pages more a turn",
        )


Work = Callable[[], object]


def pages(scale: Scale) -> Iterator[Line]:
    """How many 4 KB pages each message writes to the WAL: exact, and the same on every machine."""
    folder = scale.place("pages")
    raw, store = Raw(folder / "raw.db", "NORMAL"), Store(folder / "ours.db", "NORMAL")
    ours, theirs = _Frames(store.conn), _Frames(raw.conn)

    def line(
        what: str, bar: float | None, mine: Callable[[], object], reference: Callable[[], object], times: int, why: str
    ) -> Line:
        found, events = ours.per_message(mine, times)
        beside = f"raw {theirs.per_message(reference, times)[0]:.2f}"
        if events and "complete" in what:
            found -= events
            beside += f"; {events:.2f} more of ours for the event that tells listeners that the turn has begun"
        what, value = f"WAL pages per message, {what}", Spread.of([found])
        if bar is None:
            return watched(what, value, is_less_better=True, beside=beside, reason=why)
        return at_most(what, value, bar, "", beside=beside, reason=why)

    turns, batches = _PAGES_OF, _PAGES_OF // 20

    def refill() -> None:
        store.fill(_PAGES_OF)
        raw.insert_many(TEXT, NOW, _PAGES_OF)

    yield line(
        "enqueue",
        3.4,
        lambda: store.insert_one(),
        lambda: raw.insert_one(TEXT, NOW),
        turns,
        "beyond the row and its entry in the index of open messages: the index of ids, as in raw; its entries are "
        "scattered, so none is on a page that is written anyway",
    )
    yield line(
        "claim + complete, one by one",
        4.1,
        lambda: store.complete_only(1),
        lambda: raw.complete_only(1, NOW),
        turns,
        "beyond the row and that entry, twice: another index",
    )
    refill()
    yield line(
        "claim + complete, in batches of 20",
        None,
        lambda: store.complete_only(20),
        lambda: raw.complete_only(20, NOW),
        batches,
        "a page holds nine rows, so a batch of 20 is parts of three or four pages; and the index of open messages also "
        "holds what runs, so it is written twice",
    )
    refill()
    yield line(
        "a whole turn (answer, history, session, events)",
        None,
        lambda: store.turn(1),
        lambda: raw.turn(1, NOW),
        turns,
        "",
    )
    refill()
    yield line(
        "whole turns in batches of 20",
        None,
        lambda: store.turn(20),
        lambda: raw.turn(20, NOW),
        batches,
        "",
    )


class _Frames:
    """Counts the frames that a connection writes to the WAL; nothing checkpoints meanwhile."""

    def __init__(self, conn: apsw.Connection) -> None:
        self._conn = conn
        rows(conn, "PRAGMA wal_autocheckpoint = 0")
        conn.set_wal_hook(self._committed)
        self._frames = 0

    def _committed(self, _conn: apsw.Connection, _name: str, frames: int) -> int:
        self._frames = frames
        return 0

    def per_message(self, step: Callable[[], object], times: int) -> tuple[float, float]:
        """All frames, and those of the events table among them; ``dbstat`` says after each step whose a page is."""
        frames, of_events = 0, 0
        for _ in range(times):
            before = self._frames
            step()
            events = {number for (number,) in rows(self._conn, "SELECT pageno FROM dbstat WHERE name = 'events'")}
            written = self._written(before)
            frames += len(written)
            of_events += sum(number in events for number in written)
        return frames / _PAGES_OF, of_events / _PAGES_OF

    def _written(self, after: int) -> list[int]:
        with Path(f"{self._conn.filename}-wal").open("rb") as wal:
            wal.seek(_WAL_HEADER + after * _FRAME)
            data = wal.read()
        return [struct.unpack_from(">I", data, frame * _FRAME)[0] for frame in range(self._frames - after)]


def _one(step: Callable[[], object]) -> Callable[[], int]:
    def count() -> int:
        step()
        return 1

    return count


def _per_second(rates: list[float]) -> str:
    return f"{Spread.of(rates).median:,.0f}"


def _beside(seen: Mapping[str, list[float]], *hidden: str) -> str:
    """The rate of each candidate, and the ratio of each peer to raw."""
    parts = []
    for name, values in seen.items():
        if name not in hidden:
            ratio = "" if name in ("raw", "ours") else f" ({ratios(values, seen['raw']).median:.2f})"
            parts.append(f"{name} {_per_second(values)}/s{ratio}")
    return ", ".join(parts)


LINES = (enqueue, enqueue_many, claim_and_settle, backlog, pages)
