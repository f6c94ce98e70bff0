"""What template.yaml says, once it is known to be right."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """One function: the file it stands in, the port it listens on, how long a request may take, what it is told.

    Attributes:
        environment: what only the cloud knows stays as ``${Name}``.
        secrets: the names of variables that hold secrets.
    """

    name: str
    source: str
    target: str
    port: int
    timeout_ms: int
    environment: dict[str, str]
    secrets: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class TickSpec:
    """``POST path`` of *function* every *every_ms*."""

    function: str
    every_ms: int
    path: str
    line: int


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """Requests whose path fits *path_pattern* (``*`` and ``?``) go to *function*; no *methods* means all of them."""

    path_pattern: str
    methods: tuple[str, ...]
    function: str
    priority: int
    line: int


@dataclass(frozen=True, slots=True)
class EmulatorSpec:
    """What holds only on a developer's machine."""

    state_dir: str = ".emulator"
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Deployment:
    """All that template.yaml says, in the order of the file; routes by priority."""

    functions: tuple[FunctionSpec, ...]
    ticks: tuple[TickSpec, ...]
    routes: tuple[RouteSpec, ...]
    emulator: EmulatorSpec
