"""``python -m infra.runner``: see :mod:`infra.runner.serve`."""

import sys

from infra.runner.serve import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
