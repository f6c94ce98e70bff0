"""``python -m infra.lease``: see :mod:`infra.litestream.lease`."""

import sys

from infra.litestream.lease import main

if __name__ == "__main__":
    sys.exit(main())
