"""Runs a job by its name: ``python -m spark_jobs message_volume --replica URL --out DIR``.

A job is one file with a ``main(arguments)`` that returns an exit code, and one line here. Only the job of the command
line is imported.

Exit codes: the job's own; 64 no such job.
"""

import sys
from collections.abc import Sequence
from importlib import import_module

_JOBS = {
    "message_volume": "spark_jobs.message_volume",
}


def main(arguments: Sequence[str]) -> int:
    """Run the job that the first argument names, with the others."""
    name, *others = arguments or [""]
    if name not in _JOBS:
        sys.stderr.write(f"spark_jobs: no job {name!r}; name one of: {', '.join(sorted(_JOBS))}\n")
        return 64
    exit_code: int = import_module(_JOBS[name]).main(others)
    return exit_code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
