"""``python -m infra.costs``: see :mod:`infra.costs.program`."""

import sys

from infra.costs.program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
