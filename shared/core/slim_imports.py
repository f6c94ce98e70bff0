"""Importing a library without what it would only like to have, or has for others: that costs every function."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, ClassVar, NoReturn, Self


@contextmanager
def without(*names: str) -> Iterator[None]:
    """What is imported within finds none of these modules, whether they are installed, or loaded, or not."""
    with _instead(dict.fromkeys(names)):  # None is the import system's word for "there is none"
        yield


@contextmanager
def in_name_only(*names: str) -> Iterator[None]:
    """What is imported within finds modules of these names, with a :class:`Placeholder` for whatever it takes of them.

    For a library that can't be imported without them, and of which we use a part that never calls them: if it does
    after all, that is a ``RuntimeError``.
    """
    within = _Within()
    modules: dict[str, ModuleType | None] = {}
    for name in names:
        modules[name] = made = _Module(name, within)
        parent, _, child = name.rpartition(".")
        if parent in modules:
            setattr(modules[parent], child, made)
    try:
        with _instead(modules):
            yield
    finally:
        within.is_over = True


class _Within:
    is_over = False


class _Module(ModuleType):
    def __init__(self, name: str, within: _Within) -> None:
        super().__init__(name)
        self._within = within

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # not to be taken for a package
            raise AttributeError(f"{self.__name__} is here in name only and has no {name}")
        stands_for = f"{self.__name__}.{name}"
        taker = sys._getframe(1).f_globals.get("__name__")
        made = type(stands_for, (Placeholder,), {"stands_for": stands_for, "taker": taker, "within": self._within})
        setattr(self, name, made)
        return made


class Placeholder:
    """Something to annotate, to decorate and to derive from, as long as it is imported; called later, it says so."""

    stands_for: ClassVar[str]
    taker: ClassVar[str | None]
    within: ClassVar[_Within]

    def __new__(cls, *_: object, **__: object) -> Self:
        """Whatever it decorates is gone."""
        if cls.within.is_over:
            cls._refuse()
        return super().__new__(cls)

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """What it decorated."""
        self._refuse()

    @classmethod
    def _refuse(cls) -> NoReturn:
        module = cls.stands_for.rpartition(".")[0]
        raise RuntimeError(
            f"{cls.stands_for} is called, and is here in name only, since {cls.taker} was imported: where that is "
            f"imported within in_name_only, take {module!r} out of the names"
        )


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
