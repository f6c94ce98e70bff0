"""The service and the ways in: which requests from outside reach which function."""

from collections.abc import Iterator

from infra.template.cloudformation import Node, did_you_mean
from infra.template.containers import Container
from infra.template.reading import Reading, Resource
from infra.template.specs import FunctionSpec, RouteSpec


class Routes:
    """Reads the Service and the ListenerRules, given the task's *containers*."""

    def __init__(self, reading: Reading, containers: dict[str, Container]) -> None:
        self._reading = reading
        self._containers = containers

    def served(self, service: Resource) -> dict[str, str]:
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
                self._reading.problem(
                    service.place, f"{service.name} has no {key}: it should be {value}, because {reason}"
                )
            elif self._reading.text(node) != str(value):
                self._reading.problem(
                    node, f"{key} is {self._reading.text(node)}: it should be {value}, because {reason}"
                )
        served: dict[str, str] = {}
        for entry in self._reading.list(properties["LoadBalancers"], f"{service.name}.LoadBalancers"):
            self._balanced(service, entry, served)
        return served

    def routes(self, served: dict[str, str]) -> Iterator[RouteSpec]:
        """Every rule's patterns, in the order of the file, given what is *served*."""
        taken: dict[int, int] = {}
        for rule in self._reading.resources.values():
            if rule.kind != "AWS::ElasticLoadBalancingV2::ListenerRule":
                continue
            priority = self._priority(rule, taken)
            patterns, methods = self._conditions(rule)
            if not patterns:
                self._reading.problem(rule.place, f"{rule.name} has no path-pattern condition")
            function = self._forwarded(rule, served)
            if function:
                for pattern in patterns:
                    yield RouteSpec(pattern, methods, function, priority, rule.place.line)

    def _balanced(self, service: Resource, entry: Node, served: dict[str, str]) -> None:
        node = entry["ContainerName"]
        name = self._reading.text(node)
        container = self._containers.get(name or "")
        if container is None:
            near = did_you_mean(str(name), self._containers)
            self._reading.problem(node or entry, f"unknown container {name!r} in {service.name}.LoadBalancers{near}")
        elif container.is_unclear:
            pass
        elif container.spec is None:
            self._reading.problem(node or entry, f"container {name!r} in {service.name}.LoadBalancers runs no function")
        else:
            self._check_reachable(container, container.spec, entry)
        group = self._group(entry["TargetGroupArn"], entry)
        if group and container and container.spec:
            served[group] = container.spec.name
        elif group:
            served.setdefault(group, "")  # the problem is noted; its routes are not one more

    def _check_reachable(self, container: Container, spec: FunctionSpec, entry: Node) -> None:
        port = entry["ContainerPort"]
        if spec.port and (port is None or self._reading.text(port) != str(spec.port)):
            shown = self._reading.text(port)
            self._reading.problem(port or entry, f"ContainerPort {shown} of {spec.name}: it listens on {spec.port}")
        if container.host in ("127.0.0.1", "localhost", "::1"):
            self._reading.problem(
                container.node["Command"] or container.place,
                f"{spec.name} is behind the load balancer (line {entry.line}) but listens on {container.host} only: "
                f"add --host, 0.0.0.0",
            )

    def _group(self, node: Node | None, entry: Node) -> str | None:
        """The target group that a TargetGroupArn names."""
        name = node.reference() if node else None
        if node is None or name is None:
            self._reading.problem(node or entry, "TargetGroupArn should be a !Ref to a target group of this template")
            return None
        resource = self._reading.resources.get(name)
        if resource and not resource.kind.endswith("::TargetGroup"):
            self._reading.problem(node, f"{name} is {resource.kind}, not a target group")
            return None
        return name if resource else None  # an unknown name is noted with the other references

    def _priority(self, rule: Resource, taken: dict[int, int]) -> int:
        node = rule.properties["Priority"]
        text = self._reading.text(node)
        if node is None or text is None or not text.isdecimal():
            self._reading.problem(node or rule.place, f"{rule.name} should have a Priority, a whole number")
            return 0
        priority = int(text)
        if priority in taken:
            self._reading.problem(
                node, f"priority {priority} of {rule.name} is taken by the rule in line {taken[priority]}"
            )
        taken.setdefault(priority, rule.place.line)
        return priority

    def _conditions(self, rule: Resource) -> tuple[list[str], tuple[str, ...]]:
        found: dict[str, list[str]] = {"path-pattern": [], "http-request-method": []}
        configs = {"path-pattern": "PathPatternConfig", "http-request-method": "HttpRequestMethodConfig"}
        for condition in self._reading.list(rule.properties["Conditions"], f"{rule.name}.Conditions"):
            node = condition["Field"]
            kind = self._reading.text(node)
            if kind not in configs:
                near = did_you_mean(str(kind), configs)
                self._reading.problem(node or condition, f"the emulator can't route by {kind!r} ({rule.name}){near}")
                continue
            config = condition[configs[kind]]
            values = (config["Values"] if config else None) or condition["Values"]
            if values is None:
                self._reading.problem(condition, f"this condition of {rule.name} has no {configs[kind]}.Values")
            for value in self._reading.list(values, f"Values of {rule.name}"):
                found[kind].append(self._reading.text(value) or "")
        return found["path-pattern"], tuple(found["http-request-method"])

    def _forwarded(self, rule: Resource, served: dict[str, str]) -> str | None:
        """The function that a rule's requests go to."""
        actions = self._reading.list(rule.properties["Actions"], f"{rule.name}.Actions")
        forwards = [action for action in actions if action["TargetGroupArn"]]
        if len(forwards) != 1:
            self._reading.problem(rule.place, f"{rule.name} should have one action that forwards to a TargetGroupArn")
            return None
        node = forwards[0]["TargetGroupArn"]
        group = self._group(node, forwards[0])
        if node and group and group not in served:
            self._reading.problem(
                node,
                f"{rule.name} forwards to {group}, which no container serves: add it to the Service's LoadBalancers",
            )
        return served.get(group or "")
