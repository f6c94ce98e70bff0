"""The emulator's S3: objects that survive a restart, and moto's API for everything beyond them.

Every change of an object is written to disk (temporary file, fsync, rename) *before* its response goes out:
``python -m emulator.storage.s3_server --port 9100 --dir .emulator/s3 --bucket postroom-replica``.
"""

import argparse
import contextlib
import json
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from emulator.storage import s3_answers, s3_faults, s3_objects
from emulator.storage.moto_view import MotoView, load_moto
from emulator.storage.object_folder import ObjectFolder
from emulator.storage.s3_connections import LimitedServer
from emulator.storage.s3_faults import BucketFaults
from emulator.storage.s3_requests import Answer, read_request
from emulator.storage.s3_uploads import Uploads
from shared.core import http_head


class S3Server:
    """The operations of ``s3_requests`` on the folder, and moto's over it."""

    def __init__(self, folder: ObjectFolder, moto: MotoView, faults: BucketFaults | None = None) -> None:
        self._folder = folder
        self._moto = moto
        self._faults = faults or BucketFaults(None)
        self._uploads = Uploads(folder)

    def answer(self, environ: dict[str, Any], read: Callable[[int], bytes]) -> Answer | None:
        """The answer to an operation; None where moto has to see the request. See ``S3Application``."""
        refused = _refusal(environ)
        if refused is not None:
            return refused
        is_probe = _asks_whether_it_lives(environ)
        fault = self._faults.before(environ["REQUEST_METHOD"], is_probe=is_probe)
        if isinstance(fault, tuple):
            return fault
        if is_probe:
            return "200 OK", [("Content-Length", "0")], []
        answer = self._answer(environ, read)
        return answer if fault is None or answer is None else s3_faults.cut(answer)

    def _answer(self, environ: dict[str, Any], read: Callable[[int], bytes]) -> Answer | None:
        asked = read_request(environ)
        if asked is None or self._moto.owns(asked.bucket, asked.key):
            return None
        try:
            body = read(asked.length) if asked.bucket in self._folder.buckets else b""
            return s3_objects.answer(asked, self._folder, self._uploads, body)
        except OSError as error:
            return s3_answers.error("503 Service Unavailable", "SlowDown", f"the disk refused: {error.strerror}")

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        status, headers, body = _refusal(environ) or self._moto.answer(environ)
        start_response(status, headers)
        return body


def _asks_whether_it_lives(environ: dict[str, Any]) -> bool:
    """Whether the request is the unsigned ``GET /`` of our own health check."""
    asked = environ["REQUEST_METHOD"], environ.get("PATH_INFO"), environ.get("QUERY_STRING")
    return asked == ("GET", "/", "") and "HTTP_AUTHORIZATION" not in environ


def _refusal(environ: dict[str, Any]) -> Answer | None:
    problem = http_head.host_problem(environ.get("HTTP_HOST", ""))
    if problem is not None:
        return "400 Bad Request", [("Content-Type", "text/plain")], [f"{problem}\n".encode()]
    if _is_stranger(environ):
        told = b"this S3 serves programs of this machine only: call it at 127.0.0.1, and not from a web page\n"
        return "403 Forbidden", [("Content-Type", "text/plain")], [told]
    return None


def _is_stranger(environ: dict[str, Any]) -> bool:
    """Whether the request comes from a web page or a proxy, or is for moto's own API, which can delete everything.

    ``S3Connection`` lets in processes of this user alone. There is no further authentication here, and moto lets every
    page read its responses.
    """
    is_page = "HTTP_ORIGIN" in environ or not http_head.is_loopback(environ.get("HTTP_HOST", ""))
    headers = [name.removeprefix("HTTP_").replace("_", "-") for name in environ if name.startswith("HTTP_")]
    is_proxied = http_head.proxy_header(headers) is not None
    return is_page or is_proxied or environ.get("PATH_INFO", "").lstrip("/").startswith("moto-api")


def main() -> int:
    """Serve until SIGTERM. When it listens, it prints one line of JSON: event, port, objects."""
    parser = argparse.ArgumentParser(
        prog="python -m emulator.storage.s3_server", description="S3 with its objects on disk, and moto's API"
    )
    parser.add_argument("--port", type=int, default=0, help="0 means any free port")
    parser.add_argument("--fd", type=int, help="an inherited listening socket, instead of --port")
    parser.add_argument("--dir", type=Path, required=True, help="the folder that keeps the objects")
    parser.add_argument("--faults", type=Path, help="the file with the faults on order, read at each SIGUSR2")
    parser.add_argument("--bucket", action="append", default=[], help="created at start if missing; may be repeated")
    options = parser.parse_args()

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the supervisor decides
    folder = ObjectFolder(options.dir)
    for bucket in options.bucket:
        folder.add_bucket(bucket)
    inherited = None if options.fd is None else socket.socket(fileno=options.fd)
    faults = BucketFaults(options.faults)
    signal.signal(signal.SIGUSR2, faults.read)
    server = LimitedServer(options.port, S3Server(folder, MotoView(folder, load_moto), faults), sock=inherited)

    def finish(*_: object) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, finish)
    objects = sum(map(len, folder.buckets.values()))
    print(json.dumps({"event": "s3.ready", "port": server.port, "objects": objects}), flush=True)  # noqa: T201
    with contextlib.suppress(SystemExit):
        server.serve_forever()
    folder.lock.acquire()  # a write that has begun is complete
    return 0


if __name__ == "__main__":
    sys.exit(main())
