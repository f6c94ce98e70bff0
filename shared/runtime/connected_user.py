"""Whether Postroom's own user has the other end of a connection on this machine: the kernel tells the user.

The kernel is asked for this one socket, by ``SOCK_DIAG``: 10 µs, however many connections there are. ``/proc/net/tcp``
takes 2 ms with a few hundred connections, and is read only where the kernel has no ``SOCK_DIAG``.

Root is another user, unless Postroom runs as root: a proxy that runs as root passes on the requests of strangers.
"""

import os
import struct
from collections.abc import Callable
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from socket import AF_INET, AF_INET6, SOCK_DGRAM, socket
from typing import Any, NamedTuple, Protocol

SCOPE_KEY = "postroom.is_own_user"
"""Where a server of ours puts the question of :func:`own_user_question` into the scope of each request."""

_UNKNOWN_USER = 65534  # what the kernel says of every user that our user namespace does not have

# https://man7.org/linux/man-pages/man7/sock_diag.7.html
_AF_NETLINK, _NETLINK_SOCK_DIAG = 16, 4
_SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, _IPPROTO_TCP = 20, 1, 6
_EVERY_STATE, _ANY_INTERFACE, _NO_COOKIE = 0xFFFFFFFF, 0, b"\xff" * 8
_MESSAGE = struct.Struct("=IHHII")
_USER_AND_INODE = struct.Struct("=II")
_USER_AT = _MESSAGE.size + 4 + 48 + 3 * 4  # after the family and the state, the addresses, and three numbers

Question = Callable[[], bool]


class ConnectedSocket(Protocol):
    """A socket, or what an event loop shows of it."""

    def getpeername(self) -> Any: ...
    def getsockname(self) -> Any: ...


class End(NamedTuple):
    """One end of a connection."""

    host: IPv4Address | IPv6Address
    port: int


def own_user_question(connection: ConnectedSocket | None, *, user: int | None = None) -> Question:
    """Asks whether *user*, by default this process's, has the other end. The kernel is asked once; no answer is a no.

    A client may have reset the connection, and another have its port since: then *connection* has no other end.
    """

    @cache
    def is_own_user() -> bool:
        own = os.geteuid() if user is None else user
        try:
            found = None if connection is None else user_of(connection.getpeername(), connection.getsockname())
            return found == own != _UNKNOWN_USER and connection is not None and bool(connection.getpeername())
        except OSError:
            return False

    return is_own_user


def user_of(its_end: Any, our_end: Any) -> int | None:
    """The user that made the socket at the other end; None where the kernel does not tell, and for another kind.

    A socket that its process has closed has no inode, and its user may be told as 0, which is root.
    """
    its, ours = _end(its_end), _end(our_end)
    if its is None or ours is None or its.host.version != ours.host.version:
        return None
    try:
        found = _ask_kernel(its, ours) or _read_table(its, ours)
    except OSError:
        return None
    return found[0] if found is not None and found[1] else None


def _end(given: Any) -> End | None:
    try:
        host, port = given[:2]
        address = ip_address(host)
    except (TypeError, ValueError):  # of a socket file
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return End(mapped or address, port)


def _ask_kernel(its: End, ours: End) -> tuple[int, int] | None:
    """User and inode of the socket; None where the kernel finds none, or does not answer such questions."""
    family = AF_INET if its.host.version == 4 else AF_INET6
    ports = struct.pack("!HH", its.port, ours.port)
    hosts = its.host.packed.ljust(16, b"\0") + ours.host.packed.ljust(16, b"\0")
    wanted = ports + hosts + struct.pack("=I", _ANY_INTERFACE) + _NO_COOKIE
    question = struct.pack("=BBBxI", family, _IPPROTO_TCP, 0, _EVERY_STATE) + wanted
    head = _MESSAGE.pack(_MESSAGE.size + len(question), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0)
    try:
        with socket(_AF_NETLINK, SOCK_DGRAM, _NETLINK_SOCK_DIAG) as kernel:
            kernel.settimeout(1)
            kernel.send(head + question)
            answer = kernel.recv(8192)
    except OSError:
        return None
    is_found = _MESSAGE.unpack_from(answer)[1] == _SOCK_DIAG_BY_FAMILY
    if not is_found or answer[_MESSAGE.size + 4 :][:4] != ports:  # a listener with this port is no connection
        return None
    user, inode = _USER_AND_INODE.unpack_from(answer, _USER_AT)
    return user, inode


def _read_table(its: End, ours: End) -> tuple[int, int] | None:
    """The same, from the table of all connections."""
    wanted = [_in_table(its), _in_table(ours)]
    lines = Path("/proc/net/tcp" if its.host.version == 4 else "/proc/net/tcp6").read_text().splitlines()
    found = next((fields for fields in map(str.split, lines) if fields[1:3] == wanted), None)
    return None if found is None else (int(found[7]), int(found[9]))


def _in_table(end: End) -> str:
    words = struct.unpack(f"={len(end.host.packed) // 4}I", end.host.packed)
    return "".join(f"{word:08X}" for word in words) + f":{end.port:04X}"
