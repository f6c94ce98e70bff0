"""Imports of a library without the modules that it needs only for parts that we never call."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, ClassVar, NoReturn, Self


@contextmanager
def placeholders(*names: str) -> Iterator[None]:
    """Imports in this block find empty modules of these *names*; every attribute of them is a :class:`Placeholder`.

    The library may annotate with, decorate with and derive from what it finds there. A call after this block
    raises ``RuntimeError``.
    """
    within = _Within()
    modules: dict[str, ModuleType] = {}
    for name in names:
        modules[name] = made = _PlaceholderModule(name, within)
        parent, _, child = name.rpartition(".")
        if parent in modules:
            setattr(modules[parent], child, made)
    before = {name: sys.modules[name] for name in modules if name in sys.modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            del sys.modules[name]
        sys.modules.update(before)
        within.is_over = True


class _Within:
    is_over = False


class _PlaceholderModule(ModuleType):
    def __init__(self, name: str, within: _Within) -> None:
        super().__init__(name)
        self._within = within

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system must not take this for a package
            raise AttributeError(f"the placeholder for module {self.__name__!r} has no {name}")
        stands_for = f"{self.__name__}.{name}"
        importer = sys._getframe(1).f_globals.get("__name__")
        facts = {"stands_for": stands_for, "importer": importer, "within": self._within}
        made = type(stands_for, (Placeholder,), facts)
        setattr(self, name, made)
        return made


class Placeholder:
    """Stands for a class or a function of a module that was not loaded."""

    stands_for: ClassVar[str]
    importer: ClassVar[str | None]
    within: ClassVar[_Within]

    def __new__(cls, *_: object, **__: object) -> Self:
        if cls.within.is_over:
            cls._refuse()
        return super().__new__(cls)

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """What it decorated is gone."""
        self._refuse()

    @classmethod
    def _refuse(cls) -> NoReturn:
        module = cls.stands_for.rpartition(".")[0]
        raise RuntimeError(
            f"{cls.stands_for} was called, but {cls.importer} was imported with a placeholder for {module!r}: "
            f"take {module!r} out of the names given to placeholders()"
        )
