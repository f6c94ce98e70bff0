"""The bots and apps of the platforms: whether each account has the settings that its manifest names."""

import os
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import apsw

from emulator.cli.checks.finding import Finding, ok, problem, warning
from emulator.cli.checks.running import in_environment
from shared.channels import registry
from shared.core import accounts as names
from shared.core.errors import ConfigInvalid, PostroomError
from shared.db.engine.connection import open_connection
from shared.db.roster import accounts
from shared.db.roster.accounts import Account


def findings(path: Path, environ: Mapping[str, str], *, of_emulator: bool) -> Iterator[Finding]:
    """One of each account. The emulator invents the bots of its fake platforms, so there are no settings to check.

    Args:
        path: the database; it may be missing.
    """
    rows = _rows(path)
    if of_emulator:
        invented = ", ".join([*registry.PLATFORMS, *(each.name for each in rows if names.is_further(each.name))])
        yield ok("account", f"the emulator invents the bots of its fake platforms: {invented}")
        return
    with in_environment(environ):
        registry.get.cache_clear()
        found = [_of_first(platform) for platform in registry.PLATFORMS]
        found += (_of_further(each) for each in rows if names.is_further(each.name))
        found += _without_rows({each.name for each in rows})
    registry.get.cache_clear()
    yield from found


def _rows(path: Path) -> list[Account]:
    try:
        conn = open_connection(path, readonly=True)
        try:
            return accounts.every(conn)
        finally:
            conn.close()
    except (PostroomError, apsw.Error):
        return []  # there is no database, or one of an older release; ``database`` tells


def _of_first(platform: str) -> Finding:
    """A platform that has none of its settings is not used."""
    manifest, prefix = registry.manifest(platform), names.prefix_of(platform)
    if not any(f"{prefix}{each.name}" in os.environ for each in manifest.settings if each.is_needed):
        return ok("account", f"{platform} is not set up: docs/channels/{platform}.md")
    return _judge(platform)


def _of_further(account: Account) -> Finding:
    if account.status == "active":
        return _judge(account.name)
    waits = "a person was asked to make its bot" if account.status == "wanted" else "its token is being fetched"
    why = f"; the last attempt failed: {account.failure}" if account.failure else ""
    return warning("account", f"{account.name} is not ready: {waits}{why}", f"emulator accounts show {account.name}")


def _judge(account: str) -> Finding:
    platform = names.platform_of(account)
    try:
        registry.get(account)
    except ConfigInvalid as error:
        return problem("account", f"{account}: {error}", f"set it: docs/channels/{platform}.md has each setting")
    missing = [
        each.name for each in registry.manifest(account).settings if each.is_needed and not _is_set(account, each.name)
    ]
    return ok("account", f"{account} has its settings" + (", from the file of tokens" if missing else ""))


def _is_set(account: str, setting: str) -> bool:
    return f"{names.prefix_of(account)}{setting}" in os.environ


def _without_rows(known: set[str]) -> Iterator[Finding]:
    """Settings of further accounts that nobody added: their webhooks answer 404."""
    for platform in registry.PLATFORMS:
        prefix = names.prefix_of(platform)
        needed = [each.name for each in registry.manifest(platform).settings if each.is_needed]
        pattern = f"{prefix}*_{needed[0]}"
        for variable in sorted(each for each in os.environ if fnmatchcase(each, pattern)):
            word = variable.removeprefix(prefix).removesuffix(f"_{needed[0]}").lower()
            if f"{platform}.{word}" not in known:
                says = f"{variable} is set, and there is no account {platform}.{word}: its webhook answers 404"
                yield warning("account", says, f"emulator accounts add {platform} {word}")
