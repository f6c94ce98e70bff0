"""The contents of template.yaml, once they are known to be right."""

import msgspec


class FunctionSpec(msgspec.Struct, frozen=True):
    """One function: its file, its port, the time limit of a request and its environment.

    Attributes:
        environment: a value that only the cloud can resolve stays ``${Name}``.
        secrets: the names of variables that hold secrets.
    """

    name: str
    port: int
    timeout_ms: int
    environment: dict[str, str]
    secrets: tuple[str, ...]
    line: int

    @property
    def source(self) -> str:
        """Its file, from the project's folder."""
        return f"functions/{self.name}.py"


class TickSpec(msgspec.Struct, frozen=True):
    """``POST path`` of *function* every *every_ms*."""

    function: str
    every_ms: int
    path: str
    line: int


class RouteSpec(msgspec.Struct, frozen=True):
    """Requests whose path fits *path_pattern* (``*`` and ``?``) go to *function*; no *methods* means all of them."""

    path_pattern: str
    methods: tuple[str, ...]
    function: str
    priority: int
    line: int


class Deployment(msgspec.Struct, frozen=True):
    """All that template.yaml says, in the order of the file; routes by priority.

    Attributes:
        emulator_environment: settings that hold only on a developer's machine.
    """

    functions: tuple[FunctionSpec, ...]
    ticks: tuple[TickSpec, ...]
    routes: tuple[RouteSpec, ...]
    emulator_environment: dict[str, str]
