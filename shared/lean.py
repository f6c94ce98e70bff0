"""Importing a library without what it would only like to have, or has for others: that costs every function."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def without(*names: str) -> Iterator[None]:
    """What is imported within finds none of these modules, whether they are installed, or loaded, or not."""
    with _instead(dict.fromkeys(names)):  # None is the import system's word for "there is none"
        yield


@contextmanager
def in_name_only(*names: str) -> Iterator[None]:
    """What is imported within finds modules of these names, with a :class:`Placeholder` for whatever it takes of them.

    For a library that can't be imported without them, and of which we use a part that never calls them.
    """
    modules: dict[str, ModuleType | None] = {}
    for name in names:
        modules[name] = made = ModuleType(name)
        made.__getattr__ = lambda _: Placeholder  # type: ignore[method-assign]
        parent, _, child = name.rpartition(".")
        if parent in modules:
            setattr(modules[parent], child, made)
    with _instead(modules):
        yield


class Placeholder:
    """Something to annotate and to decorate with, and no more."""

    def __init__(self, *_: object) -> None:
        """Whatever it decorates is gone."""


@contextmanager
def _instead(modules: Mapping[str, ModuleType | None]) -> Iterator[None]:
    before = {name: sys.modules[name] for name in modules if name in sys.modules}
    sys.modules.update(modules)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in modules:
            del sys.modules[name]
        sys.modules.update(before)
