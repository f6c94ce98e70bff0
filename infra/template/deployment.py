"""template.yaml as the runner, the ticker and the emulator understand it.

Everything that is wrong is found in one reading, each with its line and column. What CloudFormation itself would find
is cfn-lint's; here stand the facts that span resources, and those that keep one database on one host:

* a function is a container whose Command is ``[python, -m, infra.runner, NAME, --port, PORT, --timeout, LIMIT]``;
* a tick is an argument ``NAME=EVERY@PORT`` of the container that runs ``infra.ticker``;
* a route is a ListenerRule, through its TargetGroup and the Service's LoadBalancers, to a container.
"""

from pathlib import Path

from infra.template.cloudformation import Problem, did_you_mean, parse
from infra.template.containers import Task
from infra.template.reading import Reading
from infra.template.routes import Routes
from infra.template.specs import Deployment, EmulatorSpec, FunctionSpec, RouteSpec, TickSpec
from shared.core.errors import ConfigInvalid

__all__ = [
    "Deployment",
    "EmulatorSpec",
    "FunctionSpec",
    "Problem",
    "RouteSpec",
    "TemplateInvalid",
    "TickSpec",
    "load",
]


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
    deployment = _read(Reading(document, file, problems), root)
    if problems:
        raise TemplateInvalid(tuple(sorted(set(problems), key=lambda problem: (problem.line, problem.column))))
    return deployment


def _read(reading: Reading, root: Path | None) -> Deployment:
    """Only good if it noted no problem."""
    reading.check_references()
    _check_kinds(reading)
    emulator = _emulator(reading)
    resource = reading.only("AWS::ECS::TaskDefinition")
    service = reading.only("AWS::ECS::Service")
    task = Task(reading, resource, root) if resource else None
    reader = Routes(reading, task.containers if task else {})
    served = reader.served(service) if service else {}
    return Deployment(
        functions=task.functions() if task else (),
        ticks=tuple(task.ticks()) if task else (),
        routes=tuple(sorted(reader.routes(served), key=lambda route: route.priority)),
        emulator=emulator,
    )


def _check_kinds(reading: Reading) -> None:
    for resource in reading.resources.values():
        if resource.kind.startswith(("AWS::Lambda::", "AWS::Serverless::")):
            reading.problem(
                resource.place,
                f"{resource.name} is {resource.kind}: each Lambda environment is a host of its own, and SQLite in "
                f"WAL mode needs one; make it a container of the task",
            )


def _emulator(reading: Reading) -> EmulatorSpec:
    metadata = reading.document["Metadata"]
    node = metadata["Emulator"] if metadata else None
    known = ("StateDir", "Environment")
    for key in reading.mapping(node, "Metadata.Emulator"):
        if node and key not in known:
            reading.problem(node.keys[key], f"unknown setting {key!r} in Metadata.Emulator{did_you_mean(key, known)}")
    state_dir = node["StateDir"] if node else None
    if state_dir and not (isinstance(state_dir.value, str) and state_dir.value):
        reading.problem(state_dir, "Metadata.Emulator.StateDir should be the name of a folder")
    environment: dict[str, str] = {}
    what = "Metadata.Emulator.Environment"
    for name, value in reading.mapping(node["Environment"] if node else None, what).items():
        text = reading.text(value)
        if text is None:
            reading.problem(value, f"{what}.{name} should be text")
        else:
            environment[name] = text
    return EmulatorSpec(str(state_dir.value) if state_dir else EmulatorSpec().state_dir, environment)
