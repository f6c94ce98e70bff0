"""Imports of a library without the modules that it merely likes to have: each of those costs every process."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(name: str) -> Iterator[None]:
    """Imports in this block do not find the module *name*, whether it is installed, already loaded, or neither."""
    before = sys.modules.get(name)
    sys.modules[name] = None  # type: ignore[assignment]  # the import system's word for "there is none"
    try:
        yield
    finally:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before
