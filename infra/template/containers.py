"""The containers of the task: which functions they run, and what ticks them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from infra.template.cloudformation import Node, did_you_mean
from infra.template.reading import Reading, Resource
from infra.template.specs import FunctionSpec, TickSpec
from infra.ticker import parse as parse_tick
from shared.core.durations import parse_ms

RUNNER = ["python", "-m", "infra.runner"]
TICKER = ["python", "-m", "infra.ticker"]
REPLICATE = ["python", "-m", "infra.replicate"]
RESTORE = ["python", "-m", "infra.restore"]
RUNNER_FORM = "[python, -m, infra.runner, NAME, --port, PORT, --timeout, LIMIT]"
TICK_SECRET = "POSTROOM_TICK_SECRET"  # noqa: S105 - the variable's name, not its value


@dataclass(frozen=True, slots=True)
class Container:
    """A container and what its Command says; ``spec`` if it is a function.

    ``is_unclear``: its Command is a problem already, so what refers to it is not one more.
    """

    name: str
    place: Node
    node: Node
    words: list[str]
    spec: FunctionSpec | None = None
    host: str = "127.0.0.1"
    is_unclear: bool = False


class Task:
    """The one task: ``containers`` by name, in the order of the file."""

    def __init__(self, reading: Reading, resource: Resource, root: Path | None) -> None:
        self._reading = reading
        self._root = root
        self.containers: dict[str, Container] = {}
        self._check_volumes(resource)
        self._read_containers(resource)
        self._functions = {name: item for name, item in self.containers.items() if item.spec}
        if not self._functions:
            reading.problem(resource.place, f"no container runs a function; one would have the Command {RUNNER_FORM}")

    def functions(self) -> tuple[FunctionSpec, ...]:
        return tuple(item.spec for item in self._functions.values() if item.spec)

    def ticks(self) -> Iterator[TickSpec]:
        """What the ticker is told to call."""
        tickers = [item for item in self.containers.values() if item.words[:3] == TICKER]
        for ticker in tickers:
            if TICK_SECRET not in self._given(ticker):
                self._reading.problem(ticker.place, f"container {ticker.name!r} is not given {TICK_SECRET}")
            seen: set[str] = set()
            for node, word in list(zip(ticker.node["Command"] or (), ticker.words, strict=False))[3:]:
                spec = self._tick(node, word)
                if spec and spec.function in seen:
                    self._reading.problem(node, f"{spec.function!r} is ticked twice")
                elif spec:
                    seen.add(spec.function)
                    yield spec

    def _check_volumes(self, task: Resource) -> None:
        for volume in self._reading.list(task.properties["Volumes"], f"{task.name}.Volumes"):
            for key in ("EFSVolumeConfiguration", "FSxWindowsFileServerVolumeConfiguration"):
                if volume[key]:
                    self._reading.problem(
                        volume.keys[key],
                        f"{key}: SQLite in WAL mode does not work over a network file system; use a volume of the "
                        f"task's own host",
                    )

    def _read_containers(self, task: Resource) -> None:
        what = f"{task.name}.ContainerDefinitions"
        if task.properties["ContainerDefinitions"] is None:
            self._reading.problem(task.place, f"{task.name} has no ContainerDefinitions")
        for node in self._reading.list(task.properties["ContainerDefinitions"], what):
            name_node = node["Name"]
            name = self._reading.text(name_node)
            if name_node is None or name is None:
                self._reading.problem(node, "this container has no Name")
            elif name in self.containers:
                first = self.containers[name].place.line
                self._reading.problem(name_node, f"container {name!r} stands twice, first in line {first}")
            else:
                self.containers[name] = self._container(name, name_node, node)
        self._check_between_containers(task)

    def _container(self, name: str, place: Node, node: Node) -> Container:
        command = node["Command"]
        if command is None:
            self._reading.problem(place, f"container {name!r} has no Command")
            return Container(name, place, node, [], is_unclear=True)
        word_nodes = self._reading.list(command, f"the Command of container {name!r}")
        words = [self._reading.text(word) or "" for word in word_nodes]
        if words[:3] == RUNNER:
            return self._function(name, place, node, words, word_nodes)
        is_unclear = words[:3] not in (TICKER, REPLICATE, RESTORE)
        if is_unclear:
            self._reading.problem(
                command,
                f"container {name!r} should run a function as {RUNNER_FORM}, or [python, -m, infra.ticker, …], "
                f"[python, -m, infra.replicate] or [python, -m, infra.restore, …]",
            )
        return Container(name, place, node, words, is_unclear=is_unclear)

    def _function(self, name: str, place: Node, node: Node, words: list[str], nodes: list[Node]) -> Container:
        function = words[3] if len(words) > 3 else ""
        options = self._options(name, node["Command"] or node, words[4:], nodes[4:])
        if function != name:
            at = nodes[3] if len(nodes) > 3 else nodes[-1]
            self._reading.problem(at, f"container {name!r} runs the function {function!r}: name them alike")
        elif self._root and not (self._root / "functions" / f"{name}.py").is_file():
            existing = sorted(path.stem for path in (self._root / "functions").glob("[!_]*.py"))
            self._reading.problem(nodes[3], f"functions/{name}.py does not exist{did_you_mean(name, existing)}")
        port = self._option(options, "--port", _port, name)
        timeout_ms = self._option(options, "--timeout", parse_ms, name)
        environment, secrets = self._variables(name, node)
        spec = FunctionSpec(
            name=function,
            source=f"functions/{function}.py",
            target=function,
            port=port or 0,  # 0 is a problem already
            timeout_ms=timeout_ms or 0,
            environment=environment,
            secrets=secrets,
            line=place.line,
        )
        host = options["--host"][0] if "--host" in options else "127.0.0.1"
        return Container(name, place, node, words, spec, host)

    def _options(
        self, container: str, command: Node, words: list[str], nodes: list[Node]
    ) -> dict[str, tuple[str, Node]]:
        """``--name value`` pairs, with the place of each value."""
        known = ("--port", "--timeout", "--host")
        found = {}
        noted = len(self._reading.problems)
        for index in range(0, len(words), 2):
            option = words[index]
            if option not in known:
                near = did_you_mean(option, known)
                self._reading.problem(
                    nodes[index], f"container {container!r}: the runner has no option {option!r}{near}"
                )
            elif index + 1 == len(words):
                self._reading.problem(nodes[index], f"container {container!r}: {option} has no value")
            else:
                found[option] = (words[index + 1], nodes[index + 1])
        for option in ("--port", "--timeout"):
            if option not in found and len(self._reading.problems) == noted:
                message = f"container {container!r} has no {option}; the Command should be {RUNNER_FORM}"
                self._reading.problem(command, message)
        return found

    def _option(
        self, options: dict[str, tuple[str, Node]], option: str, read: Callable[[str], int], container: str
    ) -> int | None:
        if option not in options:
            return None
        text, place = options[option]
        try:
            return read(text)
        except ValueError as error:
            self._reading.problem(place, f"{option} of container {container!r}: {error}")
            return None

    def _variables(self, container: str, node: Node) -> tuple[dict[str, str], tuple[str, ...]]:
        """A container's Environment, and the names of its Secrets."""
        environment: dict[str, str] = {}
        secrets: list[str] = []
        for section, key in (("Environment", "Value"), ("Secrets", "ValueFrom")):
            for entry in self._reading.list(node[section], f"{section} of container {container!r}"):
                name = self._reading.text(entry["Name"])
                value = self._reading.text(entry[key]) if entry[key] else None
                if name is None or value is None:
                    self._reading.problem(
                        entry, f"{section} of container {container!r}: each entry needs Name and {key}"
                    )
                elif name in environment or name in secrets:
                    self._reading.problem(entry["Name"] or entry, f"container {container!r} is given {name} twice")
                elif section == "Environment":
                    environment[name] = value
                else:
                    secrets.append(name)
        return environment, tuple(secrets)

    def _check_between_containers(self, task: Resource) -> None:
        listening: dict[int, Container] = {}
        volumes = [
            name
            for volume in self._reading.list(task.properties["Volumes"], f"{task.name}.Volumes")
            if (node := volume["Name"]) and (name := self._reading.text(node))
        ]
        for container in self.containers.values():
            port = container.spec.port if container.spec else 0
            if port in listening and port:
                other = listening[port]
                self._reading.problem(
                    container.node["Command"] or container.place,
                    f"port {port} of container {container.name!r} is already that of {other.name!r} "
                    f"(line {other.place.line})",
                )
            listening.setdefault(port, container)
            for key, inner, known in (
                ("DependsOn", "ContainerName", list(self.containers)),
                ("MountPoints", "SourceVolume", volumes),
            ):
                for entry in self._reading.list(container.node[key], f"{key} of container {container.name!r}"):
                    node = entry[inner]
                    name = self._reading.text(node)
                    if node and name not in known:
                        what = "container" if key == "DependsOn" else "volume"
                        near = did_you_mean(str(name), known)
                        self._reading.problem(
                            node, f"unknown {what} {name!r} in {key} of container {container.name!r}{near}"
                        )

    def _tick(self, node: Node, word: str) -> TickSpec | None:
        try:
            tick = parse_tick(word)
        except ValueError as error:
            self._reading.problem(node, str(error))
            return None
        target = self._functions.get(tick.function)
        if target is None or target.spec is None:
            container = self.containers.get(tick.function)
            if container is None or not container.is_unclear:
                near = did_you_mean(tick.function, self._functions)
                self._reading.problem(node, f"the ticker calls an unknown function {tick.function!r}{near}")
            return None
        if target.spec.port not in (tick.port, 0):
            self._reading.problem(
                node,
                f"the ticker calls {tick.function} on port {tick.port}, but it listens on {target.spec.port} "
                f"(line {target.spec.line})",
            )
        if TICK_SECRET not in self._given(target):
            self._reading.problem(
                target.place, f"{tick.function} is ticked (line {node.line}) but not given {TICK_SECRET}"
            )
        return TickSpec(tick.function, tick.every_ms, "/tick", node.line)

    def _given(self, container: Container) -> set[str]:
        if container.spec:
            return {*container.spec.environment, *container.spec.secrets}
        environment, secrets = self._variables(container.name, container.node)
        return {*environment, *secrets}


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise ValueError(f"{text!r} is not a port; write a number from 1 to 65535")
    return int(text)
