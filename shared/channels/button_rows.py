"""Buttons in rows, with labels that every platform takes."""

from collections.abc import Sequence

from shared.channels import sanitize
from shared.channels.base import Button

_LABEL_UNITS = 80  # that Discord takes, and more than a phone shows


def arrange(buttons: Sequence[Button], *, per_row: int) -> list[list[Button]]:
    """*buttons* in the order in which they are read."""
    shown = [Button(label(button.label), button.token) for button in buttons]
    return [shown[at : at + per_row] for at in range(0, len(shown), per_row)]


def label(text: str) -> str:
    """One line, not empty, and cut with an ellipsis where it is too long."""
    line = sanitize.name(text) or "…"
    units = line.encode("utf-16-le")
    return (
        line if len(units) <= 2 * _LABEL_UNITS else units[: 2 * (_LABEL_UNITS - 1)].decode("utf-16-le", "ignore") + "…"
    )
