"""Asks the ``litestream`` program and the object store about a replica, and says in our errors what they answer.

An endpoint that is away is reported within seconds; the program alone retries silently for two minutes.
"""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from shared.core import chance
from shared.core.errors import PermanentError, RetryableError
from shared.db.engine.owner_only import UMASK
from shared.db.replica.credentials import CredentialsMissing, CredentialsUnreachable
from shared.db.replica.litestream_program import environment_for, program, says_nothing_is_there, says_store_is_away
from shared.db.replica.object_store import ObjectStore, open_store
from shared.db.replica.positions.errors import ReplicaMissing, ReplicaUnreachable, RestoreFailed
from shared.db.replica.positions.urls import is_on_this_machine, shown
from shared.db.replica.stored_objects import StoreRefused, StoreUnreachable

PLAN_SECONDS = 60.0

T = TypeVar("T")

_KEPT_ENVIRONMENT = re.compile(
    r"PATH|HOME|LANG|TMPDIR|SSL_CERT_(FILE|DIR)|(HTTPS?|NO)_PROXY|(https?|no)_proxy"
    r"|LITESTREAM_(ACCESS_KEY_ID|SECRET_ACCESS_KEY)"
    r"|AWS_(CA_BUNDLE|ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|REGION|DEFAULT_REGION|PROFILE|SHARED_CREDENTIALS_FILE"
    r"|CONFIG_FILE|ROLE_ARN|ROLE_SESSION_NAME|WEB_IDENTITY_TOKEN_FILE|CONTAINER_\w+)"
)
_LOOPBACK_DROPS = re.compile(r"(HTTPS?|NO)_PROXY|AWS_PROFILE", re.IGNORECASE)


class Restorable(NamedTuple):
    """A position that a restore would give; *timestamp*: when it was made, RFC 3339 UTC."""

    txid: str
    timestamp: str


def plan(url: str, *position: str) -> Restorable | None:
    """What a restore would give, or None when there is nothing to restore."""
    target = Path("/nonexistent") / chance.token_hex(8)  # the program refuses a target that exists; none is written
    command = [program(), "restore", "-dry-run", "-json", *position, "-o", str(target), url]
    done = run(url, command, timeout_s=PLAN_SECONDS)
    if done.returncode:
        if says_nothing_is_there(done.stderr):
            return None
        raise refusal(url, done.stderr)
    found = json.loads(done.stdout)
    txid: str = found["max_txid"]
    last = [file for file in found["files"] if file["max_txid"] == txid] or found["files"]
    times = [file["timestamp"] for file in last]
    if all(file["level"] for file in last):  # merged, so younger than its newest commit, which may still be there
        times += [file["timestamp"] for file in stored_files(url) if file["max_txid"] == txid]
    return Restorable(txid, min(times))


def stored_files(url: str) -> list[dict[str, Any]]:
    """Every stored file of the replica: level, min_txid, max_txid, size, timestamp."""
    done = run(url, [program(), "ltx", "-level", "all", "-json", url], timeout_s=PLAN_SECONDS)
    if done.returncode:
        raise refusal(url, done.stderr)
    files: list[dict[str, Any]] = json.loads(done.stdout) or []
    return files


def run(url: str, command: list[str], *, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run the program to its end, whatever its exit code.

    Raises:
        ReplicaUnreachable: it took too long.
    """
    try:
        return subprocess.run(
            command,
            env=environment_of(url),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            umask=UMASK,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ReplicaUnreachable(f"{shown(url)} did not answer litestream within {timeout_s:.0f} s") from None


def environment_of(url: str) -> dict[str, str]:
    """The environment for the program: only what it needs.

    Requests to an endpoint on this machine go past every proxy, and with any keys.
    """
    kept = environment_for({name: value for name, value in os.environ.items() if _KEPT_ENVIRONMENT.fullmatch(name)})
    if is_on_this_machine(url):
        kept = {name: value for name, value in kept.items() if not _LOOPBACK_DROPS.fullmatch(name)}
        if "AWS_ACCESS_KEY_ID" not in kept:
            kept |= {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}
        kept.setdefault("AWS_REGION", "us-east-1")
    return kept


def ask_store(url: str, question: Callable[[ObjectStore], T]) -> T:
    """Ask the object store itself, which fails within seconds where the program would retry for two minutes."""
    try:
        return question(open_store(url, environment_of(url)))
    except (StoreUnreachable, CredentialsUnreachable) as error:
        raise ReplicaUnreachable(f"{error}: check the address, and that the store is up") from None
    except CredentialsMissing as error:
        raise RestoreFailed(str(error)) from None
    except StoreRefused as error:
        raise refusal(url, str(error)) from None


def refusal(url: str, stderr: str) -> PermanentError | RetryableError:
    """The error that the program's last words mean."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    said = (lines[-1] if lines else "nothing").removeprefix("Error: ")[:400]
    if "NoSuchBucket" in stderr:
        return ReplicaMissing(f"there is no such bucket: {shown(url)}")
    if re.search(r"get credentials|no EC2 IMDS role", stderr):
        return RestoreFailed(
            f"no credentials for {shown(url)}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        )
    if re.search(r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|StatusCode: 403", stderr):
        return RestoreFailed(f"{shown(url)} refuses these credentials: they need List and Get on the prefix ({said})")
    if says_store_is_away(stderr):
        return ReplicaUnreachable(f"{shown(url)} does not answer ({said})")
    return RestoreFailed(
        f"litestream could not read {shown(url)}: {said}. Try once more; if it says the same, the replica's files are "
        "damaged there: read another position with txid or timestamp"
    )


def missing(url: str) -> ReplicaMissing:
    """The error where nothing was replicated."""
    return ReplicaMissing(f"there is no replica at {shown(url)}: check the address, and that Litestream has run once")
