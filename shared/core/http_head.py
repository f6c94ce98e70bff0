"""What the head of an HTTP request says about where it came from, and whether it is well formed."""

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv6Address
from urllib.parse import urlsplit

TICK_HEADER = "X-Postroom-Tick"
"""Carries the secret that ticker and functions share, in each scheduled ``POST /tick``."""

OTHER_USER = "X-Forwarded-Other-User"
"""Says that another user of this machine sent the request, or perhaps did. The emulator's gateway adds it."""

_LOCAL_ORIGIN = re.compile(r"https?://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LONGEST_HOST = 300  # a name has 253 characters at most, and then comes a port
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]{0,5})?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

# What proxies, load balancers and tunnels add. Names that begin with one of these count as well.
_PROXY_PREFIXES = ("x-forwarded", "x-original-forwarded", "cf-", "tailscale-", "x-envoy-", "x-appengine-")
_PROXY_HEADERS = frozenset(
    (
        *("forwarded", "via", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "x-proxyuser-ip"),
        *("true-client-ip", "client-ip", "fastly-client-ip", "fly-client-ip", "x-azure-clientip", "x-original-host"),
    )
)


def proxy_header(names: Iterable[str]) -> str | None:
    """The first of the headers' *names* that only a proxy sends; None if the request came directly."""
    for name in names:
        lower = name.lower()
        if lower in _PROXY_HEADERS or lower.startswith(_PROXY_PREFIXES):
            return lower
    return None


def is_loopback(host: str) -> bool:
    """Whether a Host header names this machine."""
    return host_problem(host) is None and urlsplit(f"//{host}").hostname in _LOOPBACK


def is_local_origin(origin: str) -> bool:
    """Whether an Origin header names a page that this machine serves."""
    return _LOCAL_ORIGIN.fullmatch(origin) is not None


def is_own_origin(origin: str, host: str) -> bool:
    """Whether an Origin header names a page that this machine serves at the address of the Host header."""
    return is_local_origin(origin) and origin.partition("://")[2] == host.lower()


def path_problem(path: str) -> str | None:
    """Why the decoded *path* is refused, as a sentence; None if it is well formed."""
    if path.isprintable() or not _CONTROL.search(path):
        return None
    return "the path has a control character, such as the line break %0A: send it without"


def host_problem(host: str) -> str | None:
    """Why the Host header is refused, as a sentence; None if it is well formed. RFC 9112, 3.2."""
    if len(host) <= _LONGEST_HOST and _is_host(host):
        return None
    return "the Host header is no valid name: send the name or address, and the port, of this server"


@lru_cache(maxsize=64)
def _is_host(host: str) -> bool:
    found = _HOST.fullmatch(host)
    if found is None or found[1] is None:
        return found is not None
    try:
        IPv6Address(found[1])
    except ValueError:
        return False
    return True
