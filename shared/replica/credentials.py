"""Where the keys for a bucket come from, in the order of AWS's own programs; never from an URL, never kept on disk.

The environment, the shared credentials file, the container's role (ECS, EKS Pod Identity), the machine's role (EC2).
Not read: single sign-on, assumed roles and web identities of ``~/.aws/config``; ``aws configure export-credentials
--format env`` brings those into the environment.
"""

import configparser
import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from shared.core.errors import ConfigInvalid, RetryableError

_CONTAINER = "http://169.254.170.2"  # https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-iam-roles.html
_MACHINE = "http://169.254.169.254"  # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-IMDS.html
_ROLE = "/latest/meta-data/iam/security-credentials/"
_LIMIT_S = 2.0
_EARLY_S = 300.0  # a role's keys are renewed this long before they end


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys; those of a role carry a token and end."""

    key: str
    secret: str
    token: str = ""
    ends_at_s: float | None = None

    def __repr__(self) -> str:
        return f"Credentials({self.key[:4]}…)"

    def is_over(self, now_s: float) -> bool:
        """Whether others must be fetched."""
        return self.ends_at_s is not None and now_s > self.ends_at_s - _EARLY_S


class CredentialsMissing(ConfigInvalid):
    """There are none."""


class CredentialsUnreachable(RetryableError):
    """The role's keys did not come."""


def find(environ: Mapping[str, str]) -> Credentials:
    """The first that there are.

    Raises:
        CredentialsMissing, CredentialsUnreachable
    """
    found = _from_environment(environ) or _from_file(environ) or _from_container(environ) or _from_machine(environ)
    if found is None:
        raise CredentialsMissing(
            "no credentials for the bucket: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the host a role; "
            "`aws configure export-credentials --format env` prints those of a profile with single sign-on"
        )
    return found


def _from_environment(environ: Mapping[str, str]) -> Credentials | None:
    for family in ("AWS", "LITESTREAM"):
        key, secret = environ.get(f"{family}_ACCESS_KEY_ID"), environ.get(f"{family}_SECRET_ACCESS_KEY")
        if key and secret:
            return Credentials(key, secret, environ.get("AWS_SESSION_TOKEN", "") if family == "AWS" else "")
    return None


def _from_file(environ: Mapping[str, str]) -> Credentials | None:
    home = environ.get("HOME")
    named = environ.get("AWS_SHARED_CREDENTIALS_FILE") or (f"{home}/.aws/credentials" if home else None)
    if named is None:
        return None
    profile = environ.get("AWS_PROFILE") or "default"
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(Path(named).read_text("utf-8"))
        section = parser[profile]
        return Credentials(
            section["aws_access_key_id"], section["aws_secret_access_key"], section.get("aws_session_token", "")
        )
    except (OSError, KeyError, configparser.Error):
        return None


def _from_container(environ: Mapping[str, str]) -> Credentials | None:
    relative, full = (environ.get(f"AWS_CONTAINER_CREDENTIALS_{kind}_URI") for kind in ("RELATIVE", "FULL"))
    if not relative and not full:
        return None
    token = environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
    if file := environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
        token = Path(file).read_text().strip()
    return _role(
        _fetch(f"{_CONTAINER}{relative}" if relative else str(full), {"Authorization": token} if token else {})
    )


def _from_machine(environ: Mapping[str, str]) -> Credentials | None:
    if environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return None
    base = environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", _MACHINE).rstrip("/")
    try:
        lasts = {"X-aws-ec2-metadata-token-ttl-seconds": "300"}
        token = {"X-aws-ec2-metadata-token": _fetch(f"{base}/latest/api/token", lasts, "PUT")}
        role = _fetch(f"{base}{_ROLE}", token).split()[0]
        return _role(_fetch(f"{base}{_ROLE}{role}", token))
    except (CredentialsUnreachable, IndexError):
        return None  # not on EC2, or without a role


def _fetch(url: str, headers: Mapping[str, str], method: str = "GET") -> str:
    request = urllib.request.Request(url, None, dict(headers), method=method)  # noqa: S310 - the host's own service
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=_LIMIT_S) as answer:
            text: str = answer.read().decode()
            return text
    except (OSError, ValueError) as error:
        raise CredentialsUnreachable(f"the host's role gave no credentials ({error})") from None


def _role(text: str) -> Credentials:
    try:
        facts: dict[str, Any] = json.loads(text)
        ends_at = datetime.fromisoformat(facts["Expiration"]).timestamp() if facts.get("Expiration") else None
        return Credentials(facts["AccessKeyId"], facts["SecretAccessKey"], facts.get("Token") or "", ends_at)
    except (ValueError, KeyError, TypeError):
        raise CredentialsUnreachable("the host's role gave an answer without credentials") from None
