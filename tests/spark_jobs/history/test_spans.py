import os
from datetime import UTC, datetime

import pytest

from spark_jobs.history.spans import AskedPosition, Span, check_order, instant_of, named, told
from spark_jobs.replicas import Pin, ReplicaInvalid

NOON = 1_760_011_200  # 2025-10-09 12:00 UTC, in seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, AskedPosition(epoch="e")),
        ("1f", AskedPosition(txid="1f", epoch="e")),
        ("000000000000001f", AskedPosition(txid="000000000000001f", epoch="e")),
        ("1f@p2x8", AskedPosition(txid="1f", epoch="p2x8")),
        ("2026-03-01T12:00:00Z", AskedPosition(timestamp="2026-03-01T12:00:00Z", epoch="e")),
        (" 2026-03-01@p2x8 ", AskedPosition(timestamp="2026-03-01", epoch="p2x8")),
        ("20260301", AskedPosition(txid="20260301", epoch="e")),
        ("12345678901234567", AskedPosition(timestamp="12345678901234567", epoch="e")),
    ],
)
def test_a_position_is_an_instant_or_a_txid(text, expected):
    assert AskedPosition.parse(text, "e") == expected


def pin(txid, timestamp, epoch="first"):
    return Pin("file:///r", txid.zfill(16), timestamp, epoch)


@pytest.mark.parametrize(
    ("old", "new", "is_right"),
    [
        (pin("9", "2026-03-01T12:00:00Z"), pin("a", "2026-03-01T12:00:00Z"), True),
        (pin("a", "2026-03-01T12:00:00Z"), pin("a", "2026-03-01T12:00:00Z"), True),
        (pin("b", "2026-03-01T12:00:00Z"), pin("a", "2026-03-01T12:00:00Z"), False),
        (pin("b", "2026-03-01T12:00:00Z"), pin("1", "2026-03-01T12:00:01Z", "second"), True),
        (pin("1", "2026-03-01T12:00:01Z", "second"), pin("b", "2026-03-01T12:00:00Z"), False),
    ],
)
def test_a_span_runs_forwards(old, new, is_right):
    """In one history by the count of commits, between two by the clock."""
    if is_right:
        check_order(old, new)
    else:
        with pytest.raises(ReplicaInvalid, match="exchange the two positions"):
            check_order(old, new)


def test_a_position_is_named_as_the_commands_take_it():
    position = pin("1f", "2026-03-01T12:00:00Z", "p2x8")
    assert named(position) == "000000000000001f@p2x8"
    assert told(position) == "txid 000000000000001f@p2x8 of 2026-03-01T12:00:00Z"
    assert instant_of(position) == datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_instants_mean_the_last_positions_before_them_and_evicted_copies_come_back(primary, tmp_path, cache):
    for number in range(3):
        primary.receive(1)
        primary.replicate()
        path = sorted((tmp_path / "replica" / "ltx" / "0").iterdir())[-1]
        os.utime(path, (NOON + 60 * number,) * 2)
    span = Span.of(primary.url, "2025-10-09T12:00:30Z", "2025-10-09T12:01:30Z", cache_dir=str(cache))
    assert (told(span.old.pin), told(span.new.pin)) == (
        "txid 0000000000000001 of 2025-10-09T12:00:00Z",
        "txid 0000000000000002 of 2025-10-09T12:01:00Z",
    )
    exact = Span.of(primary.url, span.old.pin.position, span.new.pin.position, cache_dir=str(cache))
    assert exact == span
    for path in span.paths():
        path.unlink()
    assert all(path.exists() for path in span.paths())
