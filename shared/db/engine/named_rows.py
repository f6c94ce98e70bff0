"""What the API shows: reads that no verb needs, each answered by an index or bounded by its *limit*.

By subject: ``message_views``, ``response_views``, ``history_views``, ``access_views``.
"""

from typing import Any

Shown = Any  # a JSON object; its keys are what the endpoint that shows it says

NEWEST = 2**63 - 1


def named(names: str, found: list[tuple[Any, ...]]) -> list[Shown]:
    """The rows, with *names* for their columns."""
    keys = names.split()
    return [dict(zip(keys, row, strict=True)) for row in found]
