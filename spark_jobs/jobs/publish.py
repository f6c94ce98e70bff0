"""``python -m spark_jobs publish --replica URL --mart PLACE``: bring a mart to a position of a replica.

It needs no Spark session. Exit codes: see :mod:`spark_jobs.command_line`.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from shared.core.time import clock
from spark_jobs.command_line import parser_of, position_arguments, position_of, run_command
from spark_jobs.mart.manifest import MartManifest
from spark_jobs.mart.places import opened
from spark_jobs.mart.privacy import chosen
from spark_jobs.mart.publish import publish
from spark_jobs.mart.source import PinnedTables
from spark_jobs.replicas import restore_pinned

JOB = "publish"


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the arguments, publish, say what was done; return the exit code."""
    parser = parser_of(JOB, "Bring a Parquet mart to a position of a Litestream replica; only what is new is read.")
    parser.add_argument("--mart", required=True, metavar="PLACE", help="a folder, or s3://bucket/prefix?endpoint=...")
    position_arguments(parser)
    parser.add_argument("--without-text", action="store_true", help="leave out the columns with what people wrote")
    parser.add_argument(
        "--hash-people", action="store_true", help="hash people's names and ids with the secret in POSTROOM_MART_KEY"
    )
    options = parser.parse_args(argv)

    def do() -> str:
        with opened(options.mart) as place:
            before = place.begin()
            veil = chosen(
                before.privacy if before else None, without_text=options.without_text, hash_people=options.hash_people
            )
            pin, path = restore_pinned(options.replica, **position_of(options))
            source = PinnedTables(pin, path, options.cache_dir)
            manifest = publish(place, source, before, veil, now_ms=clock.now_ms())
        return _said(manifest, before)

    return run_command(JOB, do)


def _said(manifest: MartManifest, before: MartManifest | None) -> str:
    where = f"txid {manifest.txid} ({manifest.timestamp})"
    if manifest is before:
        return f"the mart is at {where} already: nothing to do\n"
    lines = [f"generation {manifest.generation}, at {where}"]
    for name, table in manifest.tables.items():
        new = sum(day.generation == manifest.generation for day in table.days.values())
        lines.append(f"{name:16}{table.rows:>12} rows{len(table.days):>6} days{new:>6} written")
    lines += _holes(manifest, before)
    known = len(before.new_histories) if before else 0
    if len(manifest.new_histories) > known:
        again_ms = manifest.new_histories[-1]["read_again_from_ms"]
        again = datetime.fromtimestamp(again_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        lines.append(f"the replica has begun a new history: rows from {again} on were read again")
    return "\n".join(lines) + "\n"


def _holes(manifest: MartManifest, before: MartManifest | None) -> Iterator[str]:
    """A line for each table of which this run has found fewer rows than there were."""
    for name, table in manifest.tables.items():
        old = before.tables.get(name) if before else None
        new = {day: number for day, number in table.holes.items() if number > (old.holes.get(day, 0) if old else 0)}
        if new:
            missing = sum(table.holes.values()) - (sum(old.holes.values()) if old else 0)
            what = f"{name} has a hole: {missing} rows before {max(new)} were pruned before a run could read them"
            yield f"{what}; run publish more often"
        unseen = {
            day: number for day, number in table.unseen.items() if number > (old.unseen.get(day, 0) if old else 0)
        }
        if unseen:
            told = sum(table.unseen.values()) - (sum(old.unseen.values()) if old else 0)
            which = f"{told} {name} of {', '.join(sorted(unseen))}"
            yield f"events tell of {which} that were pruned before a run could read them"
