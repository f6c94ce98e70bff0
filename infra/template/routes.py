"""The service and its listener rules: which requests from outside reach which function."""

from collections.abc import Iterator
from functools import reduce

from infra.template.cloudformation import Node, did_you_mean
from infra.template.containers import Container
from infra.template.specs import RouteSpec

_ONE_TASK = {  # below the service's Properties: the value, and why
    "DesiredCount": ("1", "SQLite in WAL mode works on one host only"),
    "DeploymentConfiguration.MaximumPercent": (
        "100",
        "two tasks must not run at once, not even while deploying",
    ),
    "DeploymentConfiguration.MinimumHealthyPercent": ("0", "the old task must stop before the new one starts"),
    "AvailabilityZoneRebalancing": ("DISABLED", "rebalancing starts a second task first"),
}
_CONDITIONS = {
    "path-pattern": "PathPatternConfig",
    "http-request-method": "HttpRequestMethodConfig",
    "source-ip": "SourceIpConfig",
}


def functions_by_target_group(
    service: Node, containers: dict[str, Container], resources: dict[str, Node]
) -> dict[str, str]:
    """The function behind each target group; ``""`` where a problem is noted already."""
    found: dict[str, str] = {}
    for entry in service["Properties"]["LoadBalancers"].elements():
        name = entry["ContainerName"]
        container = containers.get(name.text or "")
        if container is None:
            near = did_you_mean(name.text, containers)
            name.problem(f"unknown container {name.text!r} in {service.name}.LoadBalancers{near}")
        elif container.spec:
            _check_reachable(container, container.spec.port, entry)
        elif not container.is_unclear:
            name.problem(f"container {name.text!r} in {service.name}.LoadBalancers runs no function")
        if group := _target_group(entry["TargetGroupArn"], resources):
            found[group] = container.spec.name if container and container.spec else found.get(group, "")
    return found


def routes(resources: dict[str, Node], served: dict[str, str]) -> Iterator[RouteSpec]:
    """The routes of each listener rule, in the order of the file; *served*: the function behind each target group."""
    rule_lines: dict[int, int] = {}  # by priority
    for rule in resources.values():
        if rule["Type"].text != "AWS::ElasticLoadBalancingV2::ListenerRule":
            continue
        priority = _priority(rule, rule_lines)
        conditions = _conditions(rule)
        if not conditions["path-pattern"]:
            rule.problem_at_key(f"{rule.name} has no path-pattern condition")
        function = _forward(rule, resources, served)
        for pattern in conditions["path-pattern"] if function else ():
            methods = tuple(conditions["http-request-method"])
            yield RouteSpec(pattern, methods, function, priority, (rule.key or rule).line)


def check_one_task(service: Node) -> None:
    """There must never be two tasks at once."""
    for path, (value, reason) in _ONE_TASK.items():
        node = reduce(Node.__getitem__, path.split("."), service["Properties"])
        if not node:
            service.problem_at_key(f"{service.name} has no {node.name}: it should be {value}, because {reason}")
        elif node.text != value:
            node.problem(f"{node.name} is {node.text}: it should be {value}, because {reason}")


def _check_reachable(container: Container, listens_on: int, entry: Node) -> None:
    port = entry["ContainerPort"]
    if listens_on and port.text != str(listens_on):
        port.problem(f"ContainerPort {port.text} of {container.name}: it listens on {listens_on}")
    if container.host in ("127.0.0.1", "localhost", "::1"):
        container.node["Command"].problem(
            f"{container.name} is behind the load balancer (line {entry.line}) but listens on {container.host} only: "
            f"add --host, 0.0.0.0"
        )


def _target_group(node: Node, resources: dict[str, Node]) -> str | None:
    """The target group that a TargetGroupArn names; an unknown name is noted with the other references."""
    name = str(node.content)[2:-1] if node.function == "Ref" else None
    if name is None:
        node.problem("TargetGroupArn should be a !Ref to a target group of this template")
    elif name in resources:
        kind = str(resources[name]["Type"].text)
        if kind.endswith("::TargetGroup"):
            return name
        node.problem(f"{name} is {kind}, not a target group")
    return None


def _priority(rule: Node, rule_lines: dict[int, int]) -> int:
    node = rule["Properties"]["Priority"]
    if not (node.text or "").isdecimal():
        (node or rule.key or rule).problem(f"{rule.name} should have a Priority, a whole number")
        return 0
    priority, line = int(node.text or 0), (rule.key or rule).line
    first = rule_lines.setdefault(priority, line)
    if first != line:
        node.problem(f"priority {priority} of {rule.name} is taken by the rule in line {first}")
    return priority


def _conditions(rule: Node) -> dict[str, list[str]]:
    """The values of each kind of condition."""
    found: dict[str, list[str]] = {kind: [] for kind in _CONDITIONS}
    for condition in rule["Properties"]["Conditions"].elements():
        kind = condition["Field"].text
        if kind not in found:
            near = did_you_mean(kind, found)
            condition["Field"].problem(f"the emulator can't route by {kind!r} ({rule.name}){near}")
            continue
        values = condition[_CONDITIONS[kind]]["Values"] or condition["Values"]
        if not values:
            condition.problem(f"this condition of {rule.name} has no {_CONDITIONS[kind]}.Values")
        for value in values.elements() if kind == "path-pattern" else ():
            if not (value.text or "").startswith(("/", "*", "?")):
                value.problem(
                    f"the path {value.text!r} of {rule.name} should begin with a slash: no request matches it"
                )
        found[kind] += [value.text or "" for value in values.elements()]
    return found


def _forward(rule: Node, resources: dict[str, Node], served: dict[str, str]) -> str:
    """The function that a rule's requests go to; ``""`` if there is a problem."""
    actions = rule["Properties"]["Actions"].elements()
    groups = [action["TargetGroupArn"] for action in actions if action["TargetGroupArn"]]
    if len(groups) != 1:
        rule.problem_at_key(f"{rule.name} should have one action that forwards to a TargetGroupArn")
        return ""
    name = _target_group(groups[0], resources)
    if name and name not in served:
        groups[0].problem(
            f"{rule.name} forwards to {name}, which no container serves: add it to the Service's LoadBalancers"
        )
    return served.get(name or "", "")
