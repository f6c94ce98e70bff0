"""``python -m spark_jobs.message_volume``: see :mod:`spark_jobs.jobs.message_volume`."""

import sys
from pathlib import Path

if not __package__:  # started by its path, as spark-submit does: Python's path then begins with this folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from spark_jobs.jobs.message_volume import main

if __name__ == "__main__":
    raise SystemExit(main())
