"""One reading of a template: its parameters and resources, and the problems found on the way.

Nothing here stops at a problem: what can't be understood is noted and left out, so that one reading shows them all.
"""

from dataclasses import dataclass

from infra.template.cloudformation import Node, Problem, did_you_mean, references, text_of

PSEUDO = tuple(
    f"AWS::{name}"
    for name in ("AccountId", "NotificationARNs", "NoValue", "Partition", "Region", "StackId", "StackName", "URLSuffix")
)


@dataclass(frozen=True, slots=True)
class Resource:
    """One entry of Resources; ``properties`` is an empty mapping if it has none."""

    name: str
    place: Node
    kind: str
    properties: Node


class Reading:
    """The document, with the helpers that every check needs."""

    def __init__(self, document: Node, file: str, problems: list[Problem]) -> None:
        self.document = document
        self.problems = problems
        self._file = file
        self._parameters = {
            name: default
            for name, node in self.mapping(document["Parameters"], "Parameters").items()
            if (default := text_of(node["Default"], {}) if node["Default"] else None) is not None
        }
        self.resources = self._read_resources()

    def problem(self, node: Node, message: str) -> None:
        """Note what is wrong at *node*."""
        self.problems.append(Problem(self._file, node.line, node.column, message))

    def text(self, node: Node | None) -> str | None:
        """The text of *node*, with parameters at their defaults; None if there is none."""
        return text_of(node, self._parameters) if node else None

    def mapping(self, node: Node | None, what: str) -> dict[str, Node]:
        """The entries of *node*, which may be absent; anything else than a mapping is a problem."""
        if node and not isinstance(node.value, dict):
            self.problem(node, f"{what} should be a mapping of names to values")
        return dict(node.items()) if node else {}

    def list(self, node: Node | None, what: str) -> list[Node]:
        """The elements of *node*, which may be absent; anything else than a list is a problem."""
        if node and not isinstance(node.value, list):
            self.problem(node, f"{what} should be a list")
        return [*node] if node else []

    def only(self, kind: str) -> Resource | None:
        """The one resource of this *kind*; none or several is a problem."""
        found = [resource for resource in self.resources.values() if resource.kind == kind]
        if not found:
            self.problem(self.document["Resources"] or self.document, f"there is no {kind}")
        for other in found[1:]:
            first = found[0]
            self.problem(
                other.place,
                f"{other.name} is a second {kind} after {first.name} (line {first.place.line}): one host has one task",
            )
        return found[0] if found else None

    def check_references(self) -> None:
        """Whatever is mentioned must exist."""
        parameters = self.document["Parameters"]
        known = (*self.resources, *(name for name, _ in (parameters.items() if parameters else ())), *PSEUDO)
        for section in ("Resources", "Outputs", "Conditions"):
            node = self.document[section]
            for name, place in references(node) if node else ():
                if name not in known:
                    near = did_you_mean(name, [other for other in known if other not in PSEUDO])
                    self.problem(place, f"{name!r} is neither a resource nor a parameter{near}")

    def _read_resources(self) -> dict[str, Resource]:
        node = self.document["Resources"]
        if node is None:
            self.problem(self.document, "there is no section Resources")
        found = {}
        for name, body in self.mapping(node, "Resources").items():
            place = node.keys[name] if node else body
            kind = self.text(body["Type"])
            if kind is None:
                self.problem(place, f"{name} has no Type")
                continue
            found[name] = Resource(name, place, kind, body["Properties"] or Node({}, body.line, body.column))
        return found
