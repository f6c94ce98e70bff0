"""``python -m spark_jobs story MESSAGE --replica URL``: the story of one message through time, from a replica alone.

It needs no Spark session and no Java. Exit codes: see :mod:`spark_jobs.command_line`.
"""

import argparse
from collections.abc import Sequence

from spark_jobs.command_line import parser_of, run_command
from spark_jobs.history.story.text import as_story
from spark_jobs.history.story.walk import LEAST_POSITIONS, walk

JOB = "story"
_POSITIONS = 8
_MOST_POSITIONS = 100


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the arguments, walk the positions, print the story; return the exit code."""
    parser = parser_of(JOB, "Tell what was true of a message at the positions of a replica, also after it was pruned.")
    parser.add_argument("message", metavar="MESSAGE", help="its id (telegram_1a2b3c4d), or its id on its platform")
    parser.add_argument("--replica", required=True, metavar="URL", help="s3://bucket/prefix?endpoint=... or file:///d")
    parser.add_argument("--epoch", help="only in this history of the replica")
    parser.add_argument(
        "--positions", type=_count, default=_POSITIONS, metavar="N", help=f"restore N positions at most ({_POSITIONS})"
    )
    parser.add_argument("--cache-dir", metavar="DIR", help="where restored replicas are kept (else the user's cache)")
    options = parser.parse_args(argv)

    def do() -> str:
        return as_story(
            walk(
                options.replica,
                options.message,
                epoch=options.epoch,
                most=options.positions,
                cache_dir=options.cache_dir,
            )
        )

    return run_command(JOB, do)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not LEAST_POSITIONS <= int(text) <= _MOST_POSITIONS:
        raise argparse.ArgumentTypeError(f"{text!r}: write a number from {LEAST_POSITIONS} to {_MOST_POSITIONS}")
    return int(text)
