"""``python -m infra.verify``: see :mod:`infra.litestream.comparison.verify`."""

import sys

from infra.litestream.comparison.verify import main

if __name__ == "__main__":
    sys.exit(main())
