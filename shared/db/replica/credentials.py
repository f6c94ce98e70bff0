"""The keys for a bucket, in the order of the AWS command line: the environment, the shared credentials file, a role.

obstore knows the roles (web identity, ECS, EKS Pod Identity, EC2), but not the credentials file, so the file is read
here. Keys never come from a URL. Single sign-on and assumed roles of ``~/.aws/config`` are not read;
``aws configure export-credentials --format env`` brings those into the environment.
"""

from collections.abc import Mapping
from pathlib import Path

from shared.core.errors import ConfigInvalid, RetryableError

# The environment variables of the AWS SDKs that describe a role, and the names that obstore has for them.
_ROLE = {
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "container_credentials_relative_uri",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI": "container_credentials_full_uri",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "container_authorization_token_file",
    "AWS_WEB_IDENTITY_TOKEN_FILE": "web_identity_token_file",
    "AWS_ROLE_ARN": "role_arn",
    "AWS_ROLE_SESSION_NAME": "role_session_name",
}
_MACHINE = "http://169.254.169.254"  # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-IMDS.html


class CredentialsMissing(ConfigInvalid):
    """There are no credentials for the bucket."""

    def __init__(self) -> None:
        super().__init__(
            "there are no credentials for the bucket: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the "
            "host a role; `aws configure export-credentials --format env` prints those of a single sign-on profile"
        )


class CredentialsUnreachable(RetryableError):
    """The service that hands out a role's keys gave none."""


def obstore_config(environ: Mapping[str, str]) -> dict[str, str]:
    """The credentials settings of an :class:`obstore.store.S3Store`: keys, or where a role's keys are.

    Raises:
        CredentialsMissing: no keys, no role, and the machine's own role is switched off.
    """
    found = _from_environment(environ) or _from_file(environ)
    if found is None:
        found = {setting: environ[name] for name, setting in _ROLE.items() if environ.get(name)}
        if not found and environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
            raise CredentialsMissing
        found["metadata_endpoint"] = environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", _MACHINE).rstrip("/")
    return found


def _from_environment(environ: Mapping[str, str]) -> dict[str, str] | None:
    for family in ("AWS", "LITESTREAM"):
        key, secret = environ.get(f"{family}_ACCESS_KEY_ID"), environ.get(f"{family}_SECRET_ACCESS_KEY")
        if key and secret:
            return _keys(key, secret, environ.get("AWS_SESSION_TOKEN", "") if family == "AWS" else "")
    return None


def _from_file(environ: Mapping[str, str]) -> dict[str, str] | None:
    home = environ.get("HOME")
    file = environ.get("AWS_SHARED_CREDENTIALS_FILE") or (f"{home}/.aws/credentials" if home else None)
    if file is None:
        return None
    import configparser  # most machines have their keys in the environment, or a role

    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(Path(file).read_text("utf-8"))
        profile = parser[environ.get("AWS_PROFILE") or "default"]
        return _keys(
            profile["aws_access_key_id"], profile["aws_secret_access_key"], profile.get("aws_session_token", "")
        )
    except (OSError, KeyError, configparser.Error):
        return None


def _keys(key: str, secret: str, token: str) -> dict[str, str]:
    keys = {"access_key_id": key, "secret_access_key": secret}
    return keys | {"session_token": token} if token else keys
