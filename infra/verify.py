"""``python -m infra.verify``: see :mod:`infra.litestream.verify`."""

import sys

from infra.litestream.verify import main

if __name__ == "__main__":
    sys.exit(main())
