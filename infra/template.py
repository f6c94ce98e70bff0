"""template.yaml as the runner, the ticker and the emulator understand it.

Everything that is wrong is found in one reading, each with its line and column. What CloudFormation itself would find
is cfn-lint's; here stand the facts that span resources, and those that keep one database on one host:

* a function is a container whose Command is ``[python, -m, infra.runner, NAME, --port, PORT, --timeout, LIMIT]``;
* a tick is an argument ``NAME=EVERY@PORT`` of the container that runs ``infra.ticker``;
* a route is a ListenerRule, through its TargetGroup and the Service's LoadBalancers, to a container.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from infra.cloudformation import Node, Problem, did_you_mean, parse, references, text_of
from infra.durations import parse_ms
from infra.ticker import parse as parse_tick
from shared.errors import ConfigInvalid

RUNNER = ["python", "-m", "infra.runner"]
TICKER = ["python", "-m", "infra.ticker"]
RUNNER_FORM = "[python, -m, infra.runner, NAME, --port, PORT, --timeout, LIMIT]"
TICK_SECRET = "POSTROOM_TICK_SECRET"  # noqa: S105 - the variable's name, not its value
PSEUDO = tuple(
    f"AWS::{name}"
    for name in ("AccountId", "NotificationARNs", "NoValue", "Partition", "Region", "StackId", "StackName", "URLSuffix")
)


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


class TemplateInvalid(ConfigInvalid):
    """The template can't be used; ``problems`` holds all that is wrong with it, by line."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def load(path: Path, *, root: Path | None = None) -> Deployment:
    """Read and check the template.

    Args:
        root: the folder that has ``functions/``; if given, each function's file must exist.

    Raises:
        TemplateInvalid: with every problem at once.
        OSError: the file can't be read.
    """
    file = str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
    data = path.read_bytes()
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise TemplateInvalid((Problem(file, line, column, "this is not UTF-8 text"),)) from None
    document, problems = parse(text, file)
    if document is None:
        raise TemplateInvalid(tuple(problems))
    reader = _Reader(document, file, problems, root)
    deployment = reader.deployment()
    if problems:
        raise TemplateInvalid(tuple(sorted(set(problems), key=lambda problem: (problem.line, problem.column))))
    return deployment


@dataclass(frozen=True, slots=True)
class _Resource:
    """One entry of Resources; ``properties`` is an empty mapping if it has none."""

    name: str
    place: Node
    kind: str
    properties: Node


@dataclass(frozen=True, slots=True)
class _Container:
    """A container and what its Command says; ``spec`` if it is a function."""

    name: str
    place: Node
    node: Node
    words: list[str]
    spec: FunctionSpec | None = None
    host: str = "127.0.0.1"


class _Reader:
    """Goes through the document once, noting problems; what it returns is only good if there were none."""

    def __init__(self, document: Node, file: str, problems: list[Problem], root: Path | None) -> None:
        self._document = document
        self._file = file
        self._problems = problems
        self._root = root
        self._parameters = {
            name: default
            for name, node in self._mapping(document["Parameters"], "Parameters").items()
            if (default := self._default(node)) is not None
        }
        self._resources = self._read_resources()
        self._containers: dict[str, _Container] = {}

    def deployment(self) -> Deployment:
        self._check_references()
        self._check_kinds()
        emulator = self._emulator()
        task = self._only("AWS::ECS::TaskDefinition")
        service = self._only("AWS::ECS::Service")
        if task:
            self._check_volumes(task)
            self._read_containers(task)
        functions = {item.spec.name: item for item in self._containers.values() if item.spec}
        if task and not functions:
            self._problem(task.place, f"no container runs a function; one would have the Command {RUNNER_FORM}")
        ticks = tuple(self._ticks(functions))
        served = self._service(service) if service else {}
        routes = tuple(sorted(self._routes(served), key=lambda route: route.priority))
        return Deployment(tuple(item.spec for item in functions.values() if item.spec), ticks, routes, emulator)

    # -- the document as a whole ---------------------------------------------------------------------------------------

    def _read_resources(self) -> dict[str, _Resource]:
        node = self._document["Resources"]
        if node is None:
            self._problem(self._document, "there is no section Resources")
        found = {}
        for name, body in self._mapping(node, "Resources").items():
            place = node.keys[name] if node else body
            kind = self._text(body["Type"]) if body["Type"] else None
            if kind is None:
                self._problem(place, f"{name} has no Type")
                continue
            found[name] = _Resource(name, place, kind, body["Properties"] or Node({}, body.line, body.column))
        return found

    def _default(self, node: Node) -> str | None:
        return text_of(node["Default"], {}) if node["Default"] else None

    def _check_references(self) -> None:
        parameters = self._document["Parameters"]
        known = (*self._resources, *(name for name, _ in (parameters.items() if parameters else ())), *PSEUDO)
        for section in ("Resources", "Outputs", "Conditions"):
            node = self._document[section]
            for name, place in references(node) if node else ():
                if name not in known:
                    near = did_you_mean(name, [other for other in known if other not in PSEUDO])
                    self._problem(place, f"{name!r} is neither a resource nor a parameter{near}")

    def _check_kinds(self) -> None:
        for resource in self._resources.values():
            if resource.kind.startswith(("AWS::Lambda::", "AWS::Serverless::")):
                self._problem(
                    resource.place,
                    f"{resource.name} is {resource.kind}: each Lambda environment is a host of its own, and SQLite in "
                    f"WAL mode needs one; make it a container of the task",
                )

    def _only(self, kind: str) -> _Resource | None:
        """The one resource of this *kind*; none or several is a problem."""
        found = [resource for resource in self._resources.values() if resource.kind == kind]
        if not found:
            self._problem(self._document["Resources"] or self._document, f"there is no {kind}")
        for other in found[1:]:
            first = found[0]
            self._problem(
                other.place,
                f"{other.name} is a second {kind} after {first.name} (line {first.place.line}): one host has one task",
            )
        return found[0] if found else None

    def _emulator(self) -> EmulatorSpec:
        metadata = self._document["Metadata"]
        node = metadata["Emulator"] if metadata else None
        known = ("StateDir", "Environment")
        for key in self._mapping(node, "Metadata.Emulator"):
            if node and key not in known:
                self._problem(node.keys[key], f"unknown setting {key!r} in Metadata.Emulator{did_you_mean(key, known)}")
        state_dir = node["StateDir"] if node else None
        if state_dir and not (isinstance(state_dir.value, str) and state_dir.value):
            self._problem(state_dir, "Metadata.Emulator.StateDir should be the name of a folder")
        environment: dict[str, str] = {}
        what = "Metadata.Emulator.Environment"
        for name, value in self._mapping(node["Environment"] if node else None, what).items():
            text = self._text(value)
            if text is None:
                self._problem(value, f"{what}.{name} should be text")
            else:
                environment[name] = text
        return EmulatorSpec(str(state_dir.value) if state_dir else EmulatorSpec().state_dir, environment)

    # -- the task ------------------------------------------------------------------------------------------------------

    def _check_volumes(self, task: _Resource) -> None:
        for volume in self._list(task.properties["Volumes"], f"{task.name}.Volumes"):
            for key in ("EFSVolumeConfiguration", "FSxWindowsFileServerVolumeConfiguration"):
                if volume[key]:
                    self._problem(
                        volume.keys[key],
                        f"{key}: SQLite in WAL mode does not work over a network file system; use a volume of the "
                        f"task's own host",
                    )

    def _read_containers(self, task: _Resource) -> None:
        what = f"{task.name}.ContainerDefinitions"
        if task.properties["ContainerDefinitions"] is None:
            self._problem(task.place, f"{task.name} has no ContainerDefinitions")
        for node in self._list(task.properties["ContainerDefinitions"], what):
            name_node = node["Name"]
            name = self._text(name_node) if name_node else None
            if name_node is None or name is None:
                self._problem(node, "this container has no Name")
            elif name in self._containers:
                first = self._containers[name].place.line
                self._problem(name_node, f"container {name!r} stands twice, first in line {first}")
            else:
                self._containers[name] = self._container(name, name_node, node)
        self._check_between_containers(task)

    def _container(self, name: str, place: Node, node: Node) -> _Container:
        command = node["Command"]
        if command is None:
            self._problem(place, f"container {name!r} has no Command")
            return _Container(name, place, node, [])
        word_nodes = self._list(command, f"the Command of container {name!r}")
        words = [self._text(word) or "" for word in word_nodes]
        if words[:3] == RUNNER:
            return self._function(name, place, node, words, word_nodes)
        if words[:3] != TICKER and words[:1] != ["litestream"]:
            self._problem(
                command,
                f"container {name!r} should run a function as {RUNNER_FORM}, the ticker as [python, -m, infra.ticker, "
                f"…] or [litestream, …]",
            )
        return _Container(name, place, node, words)

    def _function(self, name: str, place: Node, node: Node, words: list[str], nodes: list[Node]) -> _Container:
        function = words[3] if len(words) > 3 else ""
        options = self._options(name, words[4:], nodes[4:])
        if function != name:
            at = nodes[3] if len(nodes) > 3 else nodes[-1]
            self._problem(at, f"container {name!r} runs the function {function!r}: name them alike")
        elif self._root and not (self._root / "functions" / f"{name}.py").is_file():
            existing = sorted(path.stem for path in (self._root / "functions").glob("[!_]*.py"))
            self._problem(nodes[3], f"functions/{name}.py does not exist{did_you_mean(name, existing)}")
        port = self._option(options, "--port", _port, name, node)
        timeout_ms = self._option(options, "--timeout", parse_ms, name, node)
        environment, secrets = self._variables(name, node)
        spec = FunctionSpec(
            name=function,
            source=f"functions/{function}.py",
            target=function,
            port=port or 0,
            timeout_ms=timeout_ms or 0,
            environment=environment,
            secrets=secrets,
            line=place.line,
        )
        host = options["--host"][0] if "--host" in options else "127.0.0.1"
        return _Container(name, place, node, words, spec, host)

    def _options(self, container: str, words: list[str], nodes: list[Node]) -> dict[str, tuple[str, Node]]:
        """``--name value`` pairs, with the place of each value."""
        known = ("--port", "--timeout", "--host")
        found = {}
        for index in range(0, len(words), 2):
            option = words[index]
            if option not in known:
                near = did_you_mean(option, known)
                self._problem(nodes[index], f"container {container!r}: the runner has no option {option!r}{near}")
            elif index + 1 == len(words):
                self._problem(nodes[index], f"container {container!r}: {option} has no value")
            else:
                found[option] = (words[index + 1], nodes[index + 1])
        return found

    def _option(
        self,
        options: dict[str, tuple[str, Node]],
        option: str,
        read: Callable[[str], int],
        container: str,
        node: Node,
    ) -> int | None:
        if option not in options:
            command = node["Command"] or node
            self._problem(command, f"container {container!r} has no {option}; the Command should be {RUNNER_FORM}")
            return None
        text, place = options[option]
        try:
            return read(text)
        except ValueError as error:
            self._problem(place, f"{option} of container {container!r}: {error}")
            return None

    def _variables(self, container: str, node: Node) -> tuple[dict[str, str], tuple[str, ...]]:
        """A container's Environment, and the names of its Secrets."""
        environment: dict[str, str] = {}
        secrets: list[str] = []
        for section, key in (("Environment", "Value"), ("Secrets", "ValueFrom")):
            for entry in self._list(node[section], f"{section} of container {container!r}"):
                name = self._text(entry["Name"]) if entry["Name"] else None
                value = self._text(entry[key]) if entry[key] else None
                if name is None or value is None:
                    self._problem(entry, f"{section} of container {container!r}: each entry needs Name and {key}")
                elif name in environment or name in secrets:
                    self._problem(entry["Name"] or entry, f"container {container!r} is given {name} twice")
                elif section == "Environment":
                    environment[name] = value
                else:
                    secrets.append(name)
        return environment, tuple(secrets)

    def _check_between_containers(self, task: _Resource) -> None:
        listening: dict[int, _Container] = {}
        volumes = [
            name
            for volume in self._list(task.properties["Volumes"], f"{task.name}.Volumes")
            if (node := volume["Name"]) and (name := self._text(node))
        ]
        for container in self._containers.values():
            port = container.spec.port if container.spec else 0
            if port in listening and port:
                other = listening[port]
                self._problem(
                    container.node["Command"] or container.place,
                    f"port {port} of container {container.name!r} is already that of {other.name!r} "
                    f"(line {other.place.line})",
                )
            listening.setdefault(port, container)
            for key, inner, known in (
                ("DependsOn", "ContainerName", list(self._containers)),
                ("MountPoints", "SourceVolume", volumes),
            ):
                for entry in self._list(container.node[key], f"{key} of container {container.name!r}"):
                    node = entry[inner]
                    name = self._text(node) if node else None
                    if node and name not in known:
                        what = "container" if key == "DependsOn" else "volume"
                        near = did_you_mean(str(name), known)
                        self._problem(node, f"unknown {what} {name!r} in {key} of container {container.name!r}{near}")

    # -- ticks ---------------------------------------------------------------------------------------------------------

    def _ticks(self, functions: dict[str, _Container]) -> Iterator[TickSpec]:
        tickers = [item for item in self._containers.values() if item.words[:3] == TICKER]
        for ticker in tickers:
            if TICK_SECRET not in self._given(ticker):
                self._problem(ticker.place, f"container {ticker.name!r} is not given {TICK_SECRET}")
            seen: set[str] = set()
            for node, word in list(zip(ticker.node["Command"] or (), ticker.words, strict=False))[3:]:
                spec = self._tick(node, word, functions)
                if spec and spec.function in seen:
                    self._problem(node, f"{spec.function!r} is ticked twice")
                elif spec:
                    seen.add(spec.function)
                    yield spec

    def _tick(self, node: Node, word: str, functions: dict[str, _Container]) -> TickSpec | None:
        try:
            tick = parse_tick(word)
        except ValueError as error:
            self._problem(node, str(error))
            return None
        target = functions.get(tick.function)
        if target is None or target.spec is None:
            near = did_you_mean(tick.function, functions)
            self._problem(node, f"the ticker calls an unknown function {tick.function!r}{near}")
            return None
        if target.spec.port != tick.port:
            self._problem(
                node,
                f"the ticker calls {tick.function} on port {tick.port}, but it listens on {target.spec.port} "
                f"(line {target.spec.line})",
            )
        if TICK_SECRET not in self._given(target):
            self._problem(target.place, f"{tick.function} is ticked (line {node.line}) but not given {TICK_SECRET}")
        return TickSpec(tick.function, tick.every_ms, "/tick", node.line)

    def _given(self, container: _Container) -> set[str]:
        if container.spec:
            return {*container.spec.environment, *container.spec.secrets}
        environment, secrets = self._variables(container.name, container.node)
        return {*environment, *secrets}

    # -- the service and the routes ------------------------------------------------------------------------------------

    def _service(self, service: _Resource) -> dict[str, str]:
        """Which function is behind each target group, after checking that there can only be one task."""
        properties = service.properties
        deployment = properties["DeploymentConfiguration"]
        wanted: tuple[tuple[Node | None, str, object, str], ...] = (
            (properties, "DesiredCount", 1, "SQLite in WAL mode works on one host only"),
            (deployment, "MaximumPercent", 100, "two tasks must not run at once, not even while deploying"),
            (deployment, "MinimumHealthyPercent", 0, "the old task must stop before the new one starts"),
            (properties, "AvailabilityZoneRebalancing", "DISABLED", "rebalancing starts a second task first"),
        )
        for parent, key, value, reason in wanted:
            node = parent[key] if parent else None
            if node is None:
                self._problem(service.place, f"{service.name} has no {key}: it should be {value}, because {reason}")
            elif self._text(node) != str(value):
                self._problem(node, f"{key} is {self._text(node)}: it should be {value}, because {reason}")
        served: dict[str, str] = {}
        for entry in self._list(properties["LoadBalancers"], f"{service.name}.LoadBalancers"):
            self._balanced(service, entry, served)
        return served

    def _balanced(self, service: _Resource, entry: Node, served: dict[str, str]) -> None:
        node = entry["ContainerName"]
        name = self._text(node) if node else None
        container = self._containers.get(name or "")
        if container is None:
            near = did_you_mean(str(name), self._containers)
            self._problem(node or entry, f"unknown container {name!r} in {service.name}.LoadBalancers{near}")
        elif container.spec is None:
            self._problem(node or entry, f"container {name!r} in {service.name}.LoadBalancers runs no function")
        else:
            self._check_reachable(container, container.spec, entry)
        group = self._group(entry["TargetGroupArn"], entry)
        if group and container and container.spec:
            served[group] = container.spec.name
        elif group:
            served.setdefault(group, "")  # the problem is noted; its routes are not one more

    def _check_reachable(self, container: _Container, spec: FunctionSpec, entry: Node) -> None:
        port = entry["ContainerPort"]
        if port is None or self._text(port) != str(spec.port):
            shown = self._text(port) if port else None
            self._problem(port or entry, f"ContainerPort {shown} of {spec.name}: it listens on {spec.port}")
        if container.host in ("127.0.0.1", "localhost", "::1"):
            self._problem(
                container.node["Command"] or container.place,
                f"{spec.name} is behind the load balancer (line {entry.line}) but listens on {container.host} only: "
                f"add --host, 0.0.0.0",
            )

    def _group(self, node: Node | None, entry: Node) -> str | None:
        """The target group that a TargetGroupArn names."""
        name = node.reference() if node else None
        if node is None or name is None:
            self._problem(node or entry, "TargetGroupArn should be a !Ref to a target group of this template")
            return None
        resource = self._resources.get(name)
        if resource and not resource.kind.endswith("::TargetGroup"):
            self._problem(node, f"{name} is {resource.kind}, not a target group")
            return None
        return name if resource else None  # an unknown name is noted with the other references

    def _routes(self, served: dict[str, str]) -> Iterator[RouteSpec]:
        taken: dict[int, int] = {}
        for rule in self._resources.values():
            if rule.kind != "AWS::ElasticLoadBalancingV2::ListenerRule":
                continue
            priority = self._priority(rule, taken)
            patterns, methods = self._conditions(rule)
            if not patterns:
                self._problem(rule.place, f"{rule.name} has no path-pattern condition")
            function = self._forwarded(rule, served)
            if function:
                for pattern in patterns:
                    yield RouteSpec(pattern, methods, function, priority, rule.place.line)

    def _priority(self, rule: _Resource, taken: dict[int, int]) -> int:
        node = rule.properties["Priority"]
        text = self._text(node) if node else None
        if node is None or text is None or not text.isdecimal():
            self._problem(node or rule.place, f"{rule.name} should have a Priority, a whole number")
            return 0
        priority = int(text)
        if priority in taken:
            self._problem(node, f"priority {priority} of {rule.name} is taken by the rule in line {taken[priority]}")
        taken.setdefault(priority, rule.place.line)
        return priority

    def _conditions(self, rule: _Resource) -> tuple[list[str], tuple[str, ...]]:
        found: dict[str, list[str]] = {"path-pattern": [], "http-request-method": []}
        configs = {"path-pattern": "PathPatternConfig", "http-request-method": "HttpRequestMethodConfig"}
        for condition in self._list(rule.properties["Conditions"], f"{rule.name}.Conditions"):
            node = condition["Field"]
            kind = self._text(node) if node else None
            if kind not in configs:
                near = did_you_mean(str(kind), configs)
                self._problem(node or condition, f"the emulator can't route by {kind!r} ({rule.name}){near}")
                continue
            config = condition[configs[kind]]
            values = (config["Values"] if config else None) or condition["Values"]
            if values is None:
                self._problem(condition, f"this condition of {rule.name} has no {configs[kind]}.Values")
            for value in self._list(values, f"Values of {rule.name}"):
                found[kind].append(self._text(value) or "")
        return found["path-pattern"], tuple(found["http-request-method"])

    def _forwarded(self, rule: _Resource, served: dict[str, str]) -> str | None:
        """The function that a rule's requests go to."""
        actions = self._list(rule.properties["Actions"], f"{rule.name}.Actions")
        forwards = [action for action in actions if action["TargetGroupArn"]]
        if len(forwards) != 1:
            self._problem(rule.place, f"{rule.name} should have one action that forwards to a TargetGroupArn")
            return None
        node = forwards[0]["TargetGroupArn"]
        group = self._group(node, forwards[0])
        if node and group and group not in served:
            self._problem(
                node,
                f"{rule.name} forwards to {group}, which no container serves: add it to the Service's LoadBalancers",
            )
        return served.get(group or "")

    # -- values --------------------------------------------------------------------------------------------------------

    def _text(self, node: Node) -> str | None:
        return text_of(node, self._parameters)

    def _mapping(self, node: Node | None, what: str) -> dict[str, Node]:
        if node and not isinstance(node.value, dict):
            self._problem(node, f"{what} should be a mapping of names to values")
        return dict(node.items()) if node else {}

    def _list(self, node: Node | None, what: str) -> list[Node]:
        if node and not isinstance(node.value, list):
            self._problem(node, f"{what} should be a list")
        return list(node) if node else []

    def _problem(self, node: Node, message: str) -> None:
        self._problems.append(Problem(self._file, node.line, node.column, message))


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise ValueError(f"{text!r} is not a port; write a number from 1 to 65535")
    return int(text)
