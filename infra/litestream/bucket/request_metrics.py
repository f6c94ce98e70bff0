"""Litestream's requests to the bucket, as far as it tells of them, and what must be estimated.

Litestream 0.5.17 counts its uploads and what it deleted (Prometheus, ``litestream_replica_operation_total`` and
``…_bytes``). Beside a server that counted all its requests, three things were found:

- A large upload counts once, but goes in parts of 5 MiB, which S3 bills one by one. The bytes tell how many.
- A deletion counts each file. S3 bills a deletion nothing, so that does not matter.
- Listings and downloads are not counted at all. Litestream lists at its start, and then by its own timers, whatever is
  written. The numbers here were counted with the intervals of ``infra/litestream.yml``. A listing of level 0, which
  keeps the files of an hour, has a page for each thousand files, and each page is a request.
"""

import http.client
import re
from urllib.parse import urlsplit

from shared.db.replica.request_counts import RequestCounts

LISTS_AT_START = 21
LISTS_PER_HOUR = 240  # of the levels above 0
LISTS_OF_LEVEL_0_PER_HOUR = 190  # each of as many pages as there are
GETS_PER_HOUR = 60
_KEYS_IN_A_PAGE = 1000
_PART_BYTES = 5 * 1024 * 1024
_LIMIT_S = 2.0
_LINE = re.compile(
    r'^litestream_replica_operation_(total|bytes)\{[^}]*operation="(\w+)"[^}]*\} ([0-9.e+]+)$', re.MULTILINE
)


def read(address: str) -> RequestCounts | None:
    """What the Litestream with its metrics at *address* (host:port) tells, since its start; None without an answer."""
    parts = urlsplit(f"//{address}")
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_LIMIT_S)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return parse(text) if answer.status == 200 else None


def parse(text: str) -> RequestCounts:
    """The requests in the text of the metrics."""
    found = {(kind, operation): int(float(number)) for kind, operation, number in _LINE.findall(text)}
    sent = found.get(("bytes", "PUT"), 0)
    return RequestCounts(
        puts=found.get(("total", "PUT"), 0) + sent // _PART_BYTES,
        gets=found.get(("total", "GET"), 0),
        lists=found.get(("total", "LIST"), 0),
        deletes=found.get(("total", "DELETE"), 0),
        sent_bytes=sent,
        received_bytes=found.get(("bytes", "GET"), 0),
    )


def unseen(seconds: float, files_of_level_0: int, *, has_begun: bool) -> RequestCounts:
    """The requests of which Litestream does not tell, estimated.

    Args:
        seconds: for which it ran.
        files_of_level_0: in the bucket.
        has_begun: it was started in that time.
    """
    pages = 1 + files_of_level_0 // _KEYS_IN_A_PAGE
    hours = seconds / 3600
    lists = hours * (LISTS_PER_HOUR + LISTS_OF_LEVEL_0_PER_HOUR * pages) + (LISTS_AT_START if has_begun else 0)
    return RequestCounts(lists=round(lists), gets=round(hours * GETS_PER_HOUR))
