"""``python -m infra.replicate``: see :mod:`infra.litestream.replicate`."""

import sys

from infra.litestream.replicate import main

if __name__ == "__main__":
    sys.exit(main())
