"""``python -m spark_jobs forget --mart PLACE --channel telegram --sender-id 42``: take a person out of a mart.

Exit codes: see :mod:`spark_jobs.command_line`.
"""

from collections.abc import Sequence

from shared.core.time import clock
from spark_jobs.command_line import parser_of, run_command
from spark_jobs.mart.forget import Forgotten, forget
from spark_jobs.mart.manifest import MartInvalid
from spark_jobs.mart.places import opened
from spark_jobs.mart.privacy import key_of

JOB = "forget"


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the arguments, take the person out, say how many rows went; return the exit code."""
    parser = parser_of(JOB, "Take a person out of a mart, with what agents answered; the next publish leaves them out.")
    parser.add_argument("--mart", required=True, metavar="PLACE", help="a folder, or s3://bucket/prefix?endpoint=...")
    parser.add_argument("--channel", required=True, help="an account of the person's platform, such as telegram")
    parser.add_argument("--sender-id", required=True, help="the person's id there")
    options = parser.parse_args(argv)

    def do() -> str:
        with opened(options.mart) as place:
            before = place.begin()
            if before is None:
                raise MartInvalid(f"there is no mart at {options.mart.partition('?')[0]}: check --mart")
            veil = key_of(before.privacy)
            done = forget(place, before, veil, options.channel, options.sender_id, now_ms=clock.now_ms())
        return _said(done)

    return run_command(JOB, do)


def _said(done: Forgotten) -> str:
    lines = [f"generation {done.manifest.generation}: {done.gone} rows were taken out, and earlier generations deleted"]
    if not done.remains:
        return "\n".join([*lines, "no column of any file holds an id or a name of the person"]) + "\n"
    lines.append("these columns still hold an id or a name of the person; the words of other people and agents stay:")
    lines += [f"  {column}: {rows} rows" for column, rows in done.remains.items()]
    return "\n".join(lines) + "\n"
