"""``python -m infra.restore``: see :mod:`infra.litestream.restore`."""

import sys

from infra.litestream.restore import main

if __name__ == "__main__":
    sys.exit(main())
