"""A turn for a provider's own functions, without a program."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from shared.agents.base import Turn

_TURN = Turn("coder", "model-1", "", {}, Path("/agents/coder"), "session_1", None, "hello", (), 1, token="turn_1")


def make_turn(**changed: Any) -> Turn:
    """The turn with these entries changed."""
    return replace(_TURN, **changed)
