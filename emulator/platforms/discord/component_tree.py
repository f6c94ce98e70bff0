"""What a message or a form of the fake Discord consists of: a tree of components.

Source: https://discord.com/developers/docs/components/reference
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

BUTTON, TEXT_INPUT, TEXT, FILE_UPLOAD = 2, 4, 10, 19
SELECTS = {3: "options", 5: "users", 6: "roles", 7: "mentionables", 8: "channels"}
MENTIONABLE, CHANNEL, USER, ROLE = 7, 8, 5, 6


def walk(components: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Every component, parents first, in the order in which the app shows them."""
    for component in components:
        yield component
        yield from walk(component.get("components") or ())
        for single in ("component", "accessory"):
            if isinstance(component.get(single), Mapping):
                yield from walk([component[single]])


def find(components: Sequence[Mapping[str, Any]], custom_id: str) -> Mapping[str, Any] | None:
    """The component that a person can use under this ``custom_id``; None if there is none, or it is disabled."""
    for component in walk(components):
        if component.get("custom_id") == custom_id and not component.get("disabled"):
            return component
    return None


def texts(components: Sequence[Mapping[str, Any]]) -> list[str]:
    """The texts of Components V2, in their order."""
    return [str(each.get("content") or "") for each in walk(components) if each.get("type") == TEXT]
