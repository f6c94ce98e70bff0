"""Small calls over HTTP, as a person, a platform or an operator makes them."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

LIMIT_S = 30.0


def call(method: str, url: str, body: Any = None, headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
    """Status and body; a body of ours goes as JSON unless it is bytes."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **(headers or {})}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read()


def ask(method: str, url: str, body: Any = None, *, token: str | None = None) -> Any:
    """The JSON of a call that must succeed."""
    status, answer = call(method, url, body, {"Authorization": f"Bearer {token}"} if token else {})
    assert status < 300, (method, url, status, answer[:500])
    return json.loads(answer)


def is_listening(port: int) -> bool:
    """Whether something takes connections there."""
    with socket.socket() as tried:
        tried.settimeout(1)
        return tried.connect_ex(("127.0.0.1", port)) == 0
