"""``python -m infra.traces``: see :mod:`infra.traces.program`."""

import sys

from infra.traces.program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
