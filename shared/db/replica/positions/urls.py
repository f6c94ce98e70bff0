"""The URL of a replica: which are valid, and how it is shown to people.

Credentials never come from the URL, which is pickled to workers and shown in plans.
"""

from ipaddress import ip_address
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from shared.db.replica.positions.errors import ReplicaInvalid

# https://litestream.io/guides/s3-compatible/ : what an URL may carry besides the place itself
_S3_QUERY = ("endpoint", "region", "force-path-style", "sign-payload", "concurrency", "part-size")


def check_url(url: str) -> None:
    """Refuse a URL that is no replica's, and every URL with credentials.

    Raises:
        ReplicaInvalid: never repeats the URL, which may hold a secret.
    """
    try:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        endpoint = urlsplit(query.get("endpoint", ""))
    except ValueError:
        raise ReplicaInvalid(
            "the replica's URL can't be parsed; write s3://bucket/prefix?endpoint=http://host:port"
        ) from None
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/") or parts.query:
            raise ReplicaInvalid(
                "a replica in a folder is file:///absolute/path: three slashes, and nothing after the path"
            )
        return
    if parts.scheme != "s3":
        raise ReplicaInvalid("a replica is s3://bucket/prefix?endpoint=http://host:port or file:///absolute/path")
    unknown = sorted(set(query) - set(_S3_QUERY))
    if "@" in parts.netloc or "@" in endpoint.netloc or any("key" in name or "secret" in name for name in unknown):
        raise ReplicaInvalid(
            "credentials do not belong in a replica's URL, which Spark shows in plans and logs: "
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
        )
    if not parts.netloc:
        raise ReplicaInvalid("the replica's URL names no bucket: s3://bucket/prefix")
    if unknown:
        raise ReplicaInvalid(
            f"unknown settings in the replica's URL: {', '.join(unknown)}; known: {', '.join(_S3_QUERY)}"
        )
    if "endpoint" in query and (endpoint.scheme not in ("http", "https") or not endpoint.hostname):
        raise ReplicaInvalid("the replica's endpoint is an address like http://127.0.0.1:9000")


def shown(url: str) -> str:
    """The URL for people."""
    endpoint = endpoint_of(url)
    return url.partition("?")[0] + (f" at {endpoint}" if endpoint else "")


def without_secrets(url: str) -> str:
    """The URL to give to a command: of its query only the settings that are known, and no credentials."""
    parts = urlsplit(url)
    query = [(name, value) for name, value in parse_qsl(parts.query) if name in _S3_QUERY and "@" not in value]
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, place, parts.path, urlencode(query, safe=":/"), ""))


def endpoint_of(url: str) -> str:
    return dict(parse_qsl(urlsplit(url).query)).get("endpoint", "")


def is_on_this_machine(url: str) -> bool:
    return _is_loopback(urlsplit(endpoint_of(url)).hostname or "")


def _is_loopback(host: str) -> bool:
    """Whether the name or address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
