"""Buttons in rows, with labels that every platform accepts."""

from collections.abc import Sequence

from shared.channels import sanitize
from shared.channels.base import Button

_LABEL_UNITS = 80  # UTF-16 units: the maximum of Discord, and more than a phone shows


def arrange(buttons: Sequence[Button], *, per_row: int) -> list[list[Button]]:
    """*buttons* in reading order, in rows of *per_row*."""
    shown = [Button(label(button.label), button.token) for button in buttons]
    return [shown[at : at + per_row] for at in range(0, len(shown), per_row)]


def label(text: str) -> str:
    """*text* as one line that is not empty, cut with an ellipsis where it is too long."""
    line = sanitize.name(text) or "…"
    units = line.encode("utf-16-le")
    return (
        line if len(units) <= 2 * _LABEL_UNITS else units[: 2 * (_LABEL_UNITS - 1)].decode("utf-16-le", "ignore") + "…"
    )
