"""The containers of the task: which functions they run, and which functions the ticker calls."""

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

import msgspec

from infra.template.cloudformation import Node, did_you_mean
from infra.template.specs import FunctionSpec, TickSpec
from infra.ticker import parse_tick
from shared.core.time.durations import parse_ms

RUNNER = ["python", "-m", "infra.runner"]
TICKER = ["python", "-m", "infra.ticker"]
REPLICATE = ["python", "-m", "infra.replicate"]
RESTORE = ["python", "-m", "infra.restore"]
DISCORD_RELAY = ["python", "-m", "infra.discord_relay"]
RUNNER_FORM = "[python, -m, infra.runner, NAME, --port, PORT, --timeout, LIMIT]"
TICK_SECRET = "POSTROOM_TICK_SECRET"  # noqa: S105 - the variable's name, not its value


class Container(msgspec.Struct):
    """One container; ``spec`` if it runs a function.

    ``is_unclear``: its Command is a problem already, so a reference to it is not one more.
    """

    name: str
    node: Node
    words: list[Node]
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    secrets: list[str] = msgspec.field(default_factory=list)
    spec: FunctionSpec | None = None
    host: str = "127.0.0.1"
    is_unclear: bool = False

    @property
    def line(self) -> int:
        return self.node["Name"].line

    @property
    def has_tick_secret(self) -> bool:
        return TICK_SECRET in self.environment or TICK_SECRET in self.secrets

    def problem(self, message: str) -> None:
        """Note a mistake at its name."""
        self.node["Name"].problem(message)

    def runs(self, command: list[str]) -> bool:
        return [word.text for word in self.words[:3]] == command


def read_containers(task: Node, root: Path | None) -> dict[str, Container]:
    """The containers of the task definition by name; *root* as in :func:`infra.template.deployment.load`."""
    definitions, volumes = task["Properties"]["ContainerDefinitions"], task["Properties"]["Volumes"].elements()
    if not definitions:
        task.problem_at_key(f"{task.name} has no ContainerDefinitions")
    for volume in volumes:
        for key in ("EFSVolumeConfiguration", "FSxWindowsFileServerVolumeConfiguration"):
            if volume[key]:
                volume[key].problem_at_key(
                    f"{key}: SQLite in WAL mode does not work over a network file system; use a volume of the task's "
                    f"own host"
                )
    containers: dict[str, Container] = {}
    for node in definitions.elements():
        name = node["Name"].text
        if name is None:
            node.problem("this container has no Name")
        elif name in containers:
            node["Name"].problem(f"container {name!r} is defined twice, first in line {containers[name].line}")
        else:
            containers[name] = _container(name, node, root)
    if not any(container.spec for container in containers.values()):
        task.problem_at_key(f"no container runs a function; one would have the Command {RUNNER_FORM}")
    _check_ports(containers.values())
    for container in containers.values():
        _check_names(container, "DependsOn", "ContainerName", "container", containers)
        names = [name for volume in volumes if (name := volume["Name"].text)]
        _check_names(container, "MountPoints", "SourceVolume", "volume", names)
    return containers


def ticks(containers: dict[str, Container]) -> Iterator[TickSpec]:
    """The ticks in the Command of the ticker."""
    for ticker in containers.values():
        if not ticker.runs(TICKER):
            continue
        if not ticker.has_tick_secret:
            ticker.problem(f"container {ticker.name!r} is not given {TICK_SECRET}")
        seen: set[str] = set()
        for word in ticker.words[3:]:
            spec = _tick(word, containers)
            if spec and spec.function in seen:
                word.problem(f"{spec.function!r} is ticked twice")
            elif spec:
                seen.add(spec.function)
                yield spec


def _container(name: str, node: Node, root: Path | None) -> Container:
    container = Container(name, node, node["Command"].elements())
    for section, value_key in (("Environment", "Value"), ("Secrets", "ValueFrom")):
        for entry in node[section].elements():
            variable, value = entry["Name"].text, entry[value_key].text
            if variable is None or value is None:
                entry.problem(f"{section} of container {name!r}: each entry needs Name and {value_key}")
            elif variable in container.environment or variable in container.secrets:
                entry["Name"].problem(f"container {name!r} is given {variable} twice")
            elif section == "Environment":
                container.environment[variable] = value
            else:
                container.secrets.append(variable)
    if container.runs(RUNNER):
        _read_function(container, root)
    elif not any(map(container.runs, (TICKER, REPLICATE, RESTORE, DISCORD_RELAY))):
        container.is_unclear = True
        if not node["Command"]:
            container.problem(f"container {name!r} has no Command")
        node["Command"].problem(
            f"container {name!r} should run a function as {RUNNER_FORM}, or [python, -m, infra.ticker, …], "
            f"[python, -m, infra.replicate], [python, -m, infra.restore, …] or [python, -m, infra.discord_relay]"
        )
    return container


def _read_function(container: Container, root: Path | None) -> None:
    name = container.name
    word = container.words[3] if len(container.words) > 3 else container.node["Command"]
    if word.text != name:
        word.problem(f"container {name!r} runs the function {word.text!r}: name them alike")
    elif root and not (root / "functions" / f"{name}.py").is_file():
        existing = [path.stem for path in (root / "functions").glob("[!_]*.py")]
        word.problem(f"functions/{name}.py does not exist{did_you_mean(name, existing)}")
    options = _options(container)
    container.spec = FunctionSpec(
        name,
        _read_option(container, options, "--port", _port),
        _read_option(container, options, "--timeout", parse_ms),
        container.environment,
        tuple(container.secrets),
        container.line,
    )
    if "--host" in options:
        container.host = str(options["--host"].text)


def _options(container: Container) -> dict[str, Node]:
    """The values of the runner's options."""
    known = ("--port", "--timeout", "--host")
    found, is_clear = {}, True
    for option, value in zip_longest(container.words[4::2], container.words[5::2]):
        if option.text in known and value:
            found[option.text] = value
            continue
        is_clear = False
        if option.text in known:
            option.problem(f"container {container.name!r}: {option.text} has no value")
        else:
            near = did_you_mean(option.text, known)
            option.problem(f"container {container.name!r}: the runner has no option {option.text!r}{near}")
    for name in ("--port", "--timeout"):
        if is_clear and name not in found:
            message = f"container {container.name!r} has no {name}; the Command should be {RUNNER_FORM}"
            container.node["Command"].problem(message)
    return found


def _read_option(container: Container, options: dict[str, Node], name: str, read: Callable[[str], int]) -> int:
    """The option's value; 0 if it is a problem."""
    try:
        return read(str(options[name].text)) if name in options else 0
    except ValueError as error:
        options[name].problem(f"{name} of container {container.name!r}: {error}")
        return 0


def _check_ports(containers: Iterable[Container]) -> None:
    listening: dict[int, Container] = {}
    for container in containers:
        if not container.spec or not container.spec.port:
            continue
        other = listening.setdefault(container.spec.port, container)
        if other is not container:
            container.node["Command"].problem(
                f"port {container.spec.port} of container {container.name!r} is already that of {other.name!r} "
                f"(line {other.line})"
            )


def _check_names(container: Container, section: str, key: str, what: str, known: Collection[str | None]) -> None:
    for entry in container.node[section].elements():
        name = entry[key]
        if name and name.text not in known:
            near = did_you_mean(name.text, known)
            name.problem(f"unknown {what} {name.text!r} in {section} of container {container.name!r}{near}")


def _tick(word: Node, containers: dict[str, Container]) -> TickSpec | None:
    try:
        tick = parse_tick(str(word.text))
    except ValueError as error:
        word.problem(str(error))
        return None
    target = containers.get(tick.function)
    if target is None or target.spec is None:
        if target is None or not target.is_unclear:
            near = did_you_mean(tick.function, (name for name, other in containers.items() if other.spec))
            word.problem(f"the ticker calls an unknown function {tick.function!r}{near}")
        return None
    if target.spec.port not in (tick.port, 0):
        word.problem(
            f"the ticker calls {tick.function} on port {tick.port}, but it listens on {target.spec.port} "
            f"(line {target.line})"
        )
    if not target.has_tick_secret:
        target.problem(f"{tick.function} is ticked (line {word.line}) but not given {TICK_SECRET}")
    return TickSpec(tick.function, tick.every_ms, "/tick", word.line)


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise ValueError(f"{text!r} is not a port; write a number from 1 to 65535")
    return int(text)
