"""``python -m infra.standby``: see :mod:`infra.litestream.standby.program`."""

import sys

from infra.litestream.standby.program import main

if __name__ == "__main__":
    sys.exit(main())
