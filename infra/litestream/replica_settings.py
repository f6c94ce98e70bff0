"""The settings of replication, read from the environment; ``infra/litestream.yml`` explains them to the operator."""

import os
from collections.abc import Mapping

from shared.core.errors import ConfigInvalid
from shared.core.time.durations import parse_ms
from shared.db.replica.litestream_program import GO_SETTINGS
from shared.db.replica.positions.urls import check_url

LEASE_MS = 60_000
FOLLOW_EVERY_MS = 500
UPLOAD_EVERY_MS = 100
VERIFY_EVERY_MS = 24 * 3_600_000
DAY_MS = 86_400_000
RETENTION_MS = 14 * DAY_MS
# Both as in infra/litestream.yml, which Litestream reads by itself:
SNAPSHOT_RETENTION_MS = 7 * DAY_MS  # for so long every position of the current prefix can be restored
POSITION_KEPT_MS = 3_600_000  # for so long each single commit can


def setting(name: str) -> str:
    """A variable that must be set.

    Raises:
        ConfigInvalid
    """
    value = os.environ.get(name)
    if not value:
        raise ConfigInvalid(f"{name} is not set; infra/litestream.yml says what it is")
    return value


def replica_url() -> str:
    """``POSTROOM_REPLICA_URL``: where the replica is.

    Raises:
        ConfigInvalid: names the setting, and never repeats the URL, which may hold a secret.
    """
    url = setting("POSTROOM_REPLICA_URL")
    try:
        check_url(url)
    except ConfigInvalid as error:
        raise ConfigInvalid(f"POSTROOM_REPLICA_URL: {error}") from None
    return url


def lease_ms_from(environ: Mapping[str, str]) -> int:
    """``POSTROOM_REPLICA_LEASE``: how long the lease lasts without renewal.

    Raises:
        ConfigInvalid
    """
    found = _duration(environ, "POSTROOM_REPLICA_LEASE", LEASE_MS)
    if found < 1000:
        raise ConfigInvalid("POSTROOM_REPLICA_LEASE: at least 1s, because object stores report times in whole seconds")
    return found


def follow_ms_from(environ: Mapping[str, str]) -> int:
    """``POSTROOM_STANDBY_FOLLOW``: how often a standby's follower looks for newer commits.

    Raises:
        ConfigInvalid
    """
    found = _duration(environ, "POSTROOM_STANDBY_FOLLOW", FOLLOW_EVERY_MS)
    if not 100 <= found <= 10_000:
        raise ConfigInvalid("POSTROOM_STANDBY_FOLLOW: from 100ms to 10s; a listing of the bucket each time")
    return found


def verify_every_ms_from(environ: Mapping[str, str]) -> int:
    """``POSTROOM_REPLICA_VERIFY``: how often a restore is compared with the database; 0: never.

    Raises:
        ConfigInvalid
    """
    if environ.get("POSTROOM_REPLICA_VERIFY") == "0":
        return 0
    return _duration(environ, "POSTROOM_REPLICA_VERIFY", VERIFY_EVERY_MS, or_else="0 (never) or ")


def retention_ms_from(environ: Mapping[str, str]) -> int:
    """``POSTROOM_REPLICA_RETENTION_MS``: how long old prefixes stay; 0: for ever.

    Raises:
        ConfigInvalid
    """
    text = environ.get("POSTROOM_REPLICA_RETENTION_MS") or str(RETENTION_MS)
    if not (text.isdecimal() and text.isascii()) or 0 < int(text) < SNAPSHOT_RETENTION_MS:
        raise ConfigInvalid(
            f"POSTROOM_REPLICA_RETENTION_MS is {text!r}: write 0 (old prefixes stay for ever) or at least "
            f"{SNAPSHOT_RETENTION_MS}, the seven days that readers may go back"
        )
    return int(text)


def upload_every_from(environ: Mapping[str, str]) -> str:
    """``POSTROOM_REPLICA_INTERVAL``: how often commits are taken for an upload, as Litestream reads it.

    Raises:
        ConfigInvalid
    """
    found = _duration(environ, "POSTROOM_REPLICA_INTERVAL", UPLOAD_EVERY_MS)
    if not 10 <= found <= 60_000:
        raise ConfigInvalid("POSTROOM_REPLICA_INTERVAL: between 10ms and 60s; what is younger is on this disk only")
    return f"{found}ms"


def replicating_environment(environ: Mapping[str, str], url: str) -> dict[str, str]:
    """The environment of a Litestream that replicates to the prefix at *url*.

    Raises:
        ConfigInvalid
    """
    settings = {"POSTROOM_REPLICA_INTERVAL": upload_every_from(environ), "POSTROOM_REPLICA_URL": url}
    return {**GO_SETTINGS, **environ, **settings}


def _duration(environ: Mapping[str, str], name: str, default: int, or_else: str = "") -> int:
    text = environ.get(name)
    if not text:
        return default
    try:
        return parse_ms(text)
    except ValueError:
        raise ConfigInvalid(
            f"{name} is {text!r}: write {or_else}a whole number and ms, s, m or h, such as 30s or 24h"
        ) from None
