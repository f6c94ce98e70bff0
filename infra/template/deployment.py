"""template.yaml as the runner, the ticker and the emulator understand it.

One reading finds every mistake, each with its line and column. cfn-lint, a development dependency, finds what
CloudFormation would refuse. The checks here are about facts that span resources, and facts that keep one database on
one host:

* a function is a container whose Command is ``[python, -m, infra.runner, NAME, --port, PORT, --timeout, LIMIT]``;
* a tick is an argument ``NAME=EVERY@PORT`` of the container that runs ``infra.ticker``;
* a route is a ListenerRule, through its TargetGroup and the Service's LoadBalancers, to a container.
"""

from pathlib import Path

from infra.template.cloudformation import Node, TemplateInvalid, TemplateProblem, did_you_mean, parse
from infra.template.containers import read_containers, ticks
from infra.template.property_names import check_properties, check_variables
from infra.template.routes import check_one_task, functions_by_target_group, routes
from infra.template.specs import Deployment


def load(path: Path, *, root: Path | None = None, variables: frozenset[str] | None = None) -> Deployment:
    """Read and check the template.

    Args:
        root: the folder that has ``functions/``; if given, each function's file must exist.
        variables: the names of all settings; if given, a variable that begins like ours must be one of them.

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
        raise TemplateInvalid([TemplateProblem(file, line, column, "this is not UTF-8 text")]) from None
    template = parse(text, file)
    deployment = _read(template, root)
    if variables is not None:
        check_variables(template["Resources"].entries().values(), template["Metadata"]["Emulator"], variables)
    if template.document.problems:
        raise TemplateInvalid(template.document.problems)
    return deployment


def _read(template: Node, root: Path | None) -> Deployment:
    """Only good if it noted no problem."""
    template.document.check_references(template)
    resources = _resources(template)
    check_properties(resources.values())
    task = _only("AWS::ECS::TaskDefinition", resources, template)
    service = _only("AWS::ECS::Service", resources, template)
    containers = read_containers(task, root) if task else {}
    served = {}
    if service:
        check_one_task(service)
        served = functions_by_target_group(service, containers, resources)
    return Deployment(
        functions=tuple(container.spec for container in containers.values() if container.spec),
        ticks=tuple(ticks(containers)),
        routes=tuple(sorted(routes(resources, served), key=lambda route: route.priority)),
        emulator_environment=_emulator_environment(template["Metadata"]["Emulator"]),
    )


def _resources(template: Node) -> dict[str, Node]:
    if not template["Resources"]:
        template.problem("there is no section Resources")
    found = {}
    for name, resource in template["Resources"].entries().items():
        kind = resource["Type"].text
        if kind is None:
            resource.problem_at_key(f"{name} has no Type")
            continue
        found[name] = resource
        if kind.startswith(("AWS::Lambda::", "AWS::Serverless::")):
            resource.problem_at_key(
                f"{name} is {kind}: each Lambda environment is a host of its own, and SQLite in WAL mode needs one; "
                f"make it a container of the task"
            )
    return found


def _only(kind: str, resources: dict[str, Node], template: Node) -> Node | None:
    """The one resource of this *kind*; none or several is a problem."""
    found = [resource for resource in resources.values() if resource["Type"].text == kind]
    if not found:
        template["Resources"].problem(f"there is no {kind}")
        return None
    first, *others = found
    for other in others:
        line = (first.key or first).line
        other.problem_at_key(f"{other.name} is a second {kind} after {first.name} (line {line}): one host has one task")
    return first


def _emulator_environment(emulator: Node) -> dict[str, str]:
    known = ("Environment",)
    for name, node in emulator.entries().items():
        if name not in known:
            node.problem_at_key(f"unknown setting {name!r} in {emulator.path}{did_you_mean(name, known)}")
    environment = {}
    for name, node in emulator["Environment"].entries().items():
        if node.text is None:
            node.problem(f"{node.path} should be text")
        else:
            environment[name] = node.text
    return environment
