"""Imports of a library without the modules that it merely likes to have: each of those costs every process."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any


@contextmanager
def without(name: str) -> Iterator[None]:
    """Imports in this block do not find the module *name*, whether it is installed, already loaded, or neither."""
    with _in_place_of(name, None):
        yield


@contextmanager
def late(name: str, *functions: str) -> Iterator[None]:
    """Imports in this block get these *functions* of the module *name* without loading it; the first call loads it."""
    with _in_place_of(name, _module(name, {each: _late(name, each) for each in functions})):
        yield


@contextmanager
def barren(name: str, *functions: str) -> Iterator[None]:
    """Imports in this block get these *functions* of the module *name* as ones that find nothing."""
    with _in_place_of(name, _module(name, dict.fromkeys(functions, lambda **_: ()))):
        yield


def _module(name: str, functions: Mapping[str, Callable[..., Any]]) -> ModuleType:
    found = ModuleType(name)
    for each, function in functions.items():
        setattr(found, each, function)
    return found


def _late(module: str, function: str) -> Callable[..., Any]:
    return lambda *arguments, **named: getattr(import_module(module), function)(*arguments, **named)


@contextmanager
def _in_place_of(name: str, module: ModuleType | None) -> Iterator[None]:
    before = sys.modules.get(name)
    sys.modules[name] = module  # type: ignore[assignment]  # None is the import system's word for "there is none"
    try:
        yield
    finally:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before
