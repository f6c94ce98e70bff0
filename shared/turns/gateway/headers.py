"""The headers of model requests and answers: what is passed on, what is swapped, and what stays here."""

from collections.abc import Mapping

from shared.turns.gateway.host_errors import LONGEST_RETRY_S, retry_after_s
from shared.turns.gateway.upstreams import ModelUpstream

Headers = list[tuple[bytes, bytes]]

_HOP = {
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
    b"trailer", b"transfer-encoding", b"upgrade",
}  # fmt: skip
_LOGINS = {b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key", b"cookie"}
_ABOUT_US = {b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip"}
_NOT_SENT = _HOP | _LOGINS | _ABOUT_US | {
    b"host", b"content-length", b"content-encoding", b"accept-encoding", b"expect",
}  # fmt: skip
_NOT_RETURNED = _HOP | {b"content-length", b"content-encoding", b"set-cookie", b"retry-after", b"retry-after-ms"}


def token(headers: Headers) -> str:
    """The program's token: as a key, or as a bearer."""
    known = dict(headers)
    given = known.get(b"x-api-key") or known.get(b"authorization", b"")
    return given.removeprefix(b"Bearer ").decode("latin-1")


def tokens(headers: Headers) -> list[str]:
    """All that may be taken for the program's token."""
    given = [value for name, value in headers if name in (b"x-api-key", b"authorization")]
    return [value.removeprefix(b"Bearer ").decode("latin-1") for value in given]


def sent(headers: Headers, upstream: ModelUpstream) -> Headers:
    """The program's headers, with our key in place of its token."""
    not_sent = _NOT_SENT | _named_by_connection(headers)
    kept = [(name, value) for name, value in headers if name not in not_sent]
    beta = upstream.beta
    if beta is not None and not any(name == b"anthropic-beta" and beta in value for name, value in kept):
        kept.append((b"anthropic-beta", beta))
    return [*kept, (b"accept-encoding", b"identity"), *upstream.auth]


def returned(headers: Headers) -> Headers:
    """The host's headers that the program gets."""
    lower = [(name.lower(), value) for name, value in headers]
    not_returned = _NOT_RETURNED | _named_by_connection(lower)
    return [(name, value) for name, value in lower if name not in not_returned]


def retry_after(headers: Mapping[str, str], *, now_ms: int) -> Headers:
    """The wait for the program, in seconds: left out where it is longer than a program should wait in silence."""
    waits_s = retry_after_s(headers, now_ms=now_ms)
    return [] if waits_s is None or waits_s > LONGEST_RETRY_S else [(b"retry-after", f"{waits_s:g}".encode())]


def length(body: bytes) -> tuple[bytes, bytes]:
    """The header that says how long *body* is."""
    return (b"content-length", str(len(body)).encode())


def _named_by_connection(headers: Headers) -> set[bytes]:
    """Headers that ``Connection`` says are for the next hop only."""
    return {word.strip().lower() for name, value in headers if name == b"connection" for word in value.split(b",")}
