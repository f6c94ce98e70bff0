"""What the processes of a run have logged."""

import json
from contextlib import suppress
from typing import Any

from emulator.proving.child import Child


def said(child: Child, event: str) -> list[dict[str, Any]]:
    """The log lines of this event."""
    if not child.log.exists():
        return []
    found = []
    for line in child.log.read_bytes().splitlines():
        with suppress(ValueError):
            facts = json.loads(line)
            if isinstance(facts, dict) and facts.get("event") == event:
                found.append(facts)
    return found
