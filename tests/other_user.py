"""Calls by another user of this machine, and what the kernel says of them.

Only root can become another user. Where the tests don't run as root, the servers' tests are left out, and
``tests/shared/runtime/test_connected_user.py`` covers the rule: it asks for a user that the tests are not.
"""

import http.client
import os
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.forks import FORKS, LIMIT_S

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

Reply = tuple[int, str, dict[str, str]]


def ask(url: str, method: str = "GET", body: str | None = None, headers: Mapping[str, str] | None = None) -> Reply:
    """Status, body and headers of the answer to this process."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body, dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def ask_as_nobody(url: str, *more: Any, **fields: Any) -> Reply:
    """The same, to a process of another user."""
    hears, says = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=_ask, args=(says, url, more, fields))
    process.start()
    says.close()
    assert hears.poll(LIMIT_S), "another user's process said nothing"
    reply: Reply = hears.recv()
    process.join(LIMIT_S)
    return reply


def _ask(says: Any, url: str, more: tuple[Any, ...], fields: dict[str, Any]) -> None:
    become_nobody()
    says.send(ask(url, *more, **fields))


def connect_as_nobody(port: int) -> None:
    """Become another user, connect, send one byte, and wait for the end of the connection."""
    become_nobody()
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"x")
        client.recv(1)


def become_nobody() -> None:
    """Make this process another user's, which perhaps can read nothing of Python's."""
    "127.0.0.1".encode("idna")  # a name's codec is loaded when it is first used
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
