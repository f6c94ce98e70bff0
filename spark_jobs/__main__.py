"""Runs a job by its name: ``python -m spark_jobs message_volume --replica URL --out DIR``.

On a cluster: ``spark-submit spark_jobs/__main__.py message_volume ...``. A job is one file with a ``main(arguments)``
that returns an exit code, and its line here. Only the job that the command line names is imported.

Exit codes: the job's own; 64 no such job.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

if not __package__:  # started by its path, as spark-submit does: Python's path then begins with this folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

_JOBS = {
    "agent_pairs": "spark_jobs.jobs.agent_pairs",
    "backlog": "spark_jobs.jobs.backlog",
    "costs": "spark_jobs.jobs.costs",
    "deliveries": "spark_jobs.jobs.deliveries",
    "diff": "spark_jobs.jobs.diff",
    "failures": "spark_jobs.jobs.failures",
    "forget": "spark_jobs.jobs.forget",
    "message_volume": "spark_jobs.jobs.message_volume",
    "people": "spark_jobs.jobs.people",
    "publish": "spark_jobs.jobs.publish",
    "report": "spark_jobs.jobs.report",
    "schedules": "spark_jobs.jobs.schedules",
    "story": "spark_jobs.jobs.story",
    "turn_times": "spark_jobs.jobs.turn_times",
}


def main(arguments: Sequence[str]) -> int:
    """Run the job that the first argument names, with the other arguments."""
    name, *others = arguments or [""]
    if name not in _JOBS:
        sys.stderr.write(f"spark_jobs: there is no job {name!r}; name one of: {', '.join(sorted(_JOBS))}\n")
        return os.EX_USAGE
    exit_code: int = import_module(_JOBS[name]).main(others)
    return exit_code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
