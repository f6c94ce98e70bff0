"""Writes the tokens of bots that Postroom was given while it runs; ``shared.channels.account_secrets`` reads them.

One process writes at a time: ``deliver``, or the emulator for its fake bots before they are known.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from shared.channels import account_secrets
from shared.db.engine import owner_only


def put(path: Path, account: str, values: Mapping[str, str]) -> None:
    """Keep the account's settings, by field name, in place of those that it had.

    Raises:
        ConfigInvalid: the file can't be read, and stays as it is.
        OSError: the file can't be written, and stays as it is.
    """
    _write(path, account_secrets.read(path) | {account: dict(values)})


def forget(path: Path, account: str) -> None:
    """Delete the account's settings; nothing happens where it has none. Raises as ``put``."""
    found = account_secrets.read(path)
    if found.pop(account, None) is not None:
        _write(path, found)


def _write(path: Path, found: Mapping[str, Mapping[str, str]]) -> None:
    owner_only.replace_text(path, json.dumps(found, indent=1, sort_keys=True) + "\n")
