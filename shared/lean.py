"""Importing a library without what it would only like to have: its niceties for terminals cost every function."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(*names: str) -> Iterator[None]:
    """What is imported within finds none of these modules, whether they are installed, or loaded, or not."""
    before = {name: sys.modules[name] for name in names if name in sys.modules}
    for name in names:
        sys.modules[name] = None  # type: ignore[assignment]  # the import system's word for "there is none"
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]
        sys.modules.update(before)
