"""The tokens of bots that Postroom was given while it runs: a JSON file beside the database, for its owner alone.

No row, no replica and no log has them. This module reads the file; ``shared.roster.account_tokens`` writes it.
"""

import json
from pathlib import Path
from typing import Any

from shared.core.errors import ConfigInvalid


def read(path: Path) -> dict[str, dict[str, str]]:
    """All that the file has: by account, then by field name. A missing file is an empty one.

    Raises:
        ConfigInvalid: the file can't be read; the message names the file, and nothing that is in it.
    """
    try:
        found: Any = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _unreadable(path, type(error).__name__) from None
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise _unreadable(path, "it is no object of objects")
    return {name: {str(field): str(value) for field, value in each.items()} for name, each in found.items()}


def changed_ns(path: Path) -> int | None:
    """When the file was written last; None: there is none. A process reads it again when this changes."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def _unreadable(path: Path, why: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"the tokens of further accounts in {path} can't be read ({why}): correct the file, or move it away and give "
        "the tokens again"
    )
