"""Parses a CloudFormation template into nodes that know their line and column. Knows nothing about what we deploy."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

import msgspec
import yaml

from shared.core.errors import ConfigInvalid

# The C loader, where PyYAML was built with it, is 10 times as fast; its marks are the same.
_Loader: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLACEHOLDER = re.compile(r"\$\{([^!{}][^{}]*)\}")
DEEPEST = 100  # levels of lists and mappings
_PSEUDO_PARAMETERS = tuple(
    f"AWS::{name}"
    for name in ("AccountId", "NotificationARNs", "NoValue", "Partition", "Region", "StackId", "StackName", "URLSuffix")
)


class TemplateProblem(msgspec.Struct, frozen=True):
    """One mistake and its place; line and column count from 1."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column} error {self.message}"


class TemplateInvalid(ConfigInvalid):
    """The template can't be used; ``problems`` holds every mistake, by line."""

    def __init__(self, problems: Iterable[TemplateProblem]) -> None:
        self.problems = tuple(sorted(set(problems), key=lambda problem: (problem.line, problem.column)))
        super().__init__("\n".join(map(str, self.problems)))


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A text, a list or a mapping of the template. A missing or null value is a false node at its parent's place.

    Attributes:
        path: such as ``Metadata.Emulator``.
        content: None if missing.
        key: of an entry of a mapping, the key's own node.
        function: the intrinsic function whose value this is, such as ``Ref``; its ``content`` is then a text with
            ``${Name}`` for each value that comes from elsewhere.
    """

    document: "Document" = field(repr=False)
    path: str
    line: int
    column: int
    content: "str | list[Node] | dict[str, Node] | None" = None
    key: "Node | None" = None
    function: str | None = None

    def __bool__(self) -> bool:
        return self.content is not None

    def __getitem__(self, key: str) -> "Node":
        found = self.content.get(key) if isinstance(self.content, dict) else None
        return Node(self.document, f"{self.path}.{key}", self.line, self.column) if found is None else found

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]

    @property
    def text(self) -> str | None:
        """The text, with the parameters' defaults in it; a name that only the cloud can resolve stays ``${Name}``."""
        if not isinstance(self.content, str) or not self.function:
            return self.content if isinstance(self.content, str) else None
        known = self.document.parameters
        return _PLACEHOLDER.sub(lambda found: known.get(found[1], found[0]), self.content).replace("${!", "${")

    def elements(self) -> "list[Node]":
        """The elements of a list; a missing list has none, any other value is a problem."""
        if self and not isinstance(self.content, list):
            self.problem(f"{self.path} should be a list")
        return self.content if isinstance(self.content, list) else []

    def entries(self) -> "dict[str, Node]":
        """The entries of a mapping; a missing mapping has none, any other value is a problem."""
        if self and not isinstance(self.content, dict):
            self.problem(f"{self.path} should be a mapping of names to values")
        return self.content if isinstance(self.content, dict) else {}

    def problem(self, message: str) -> None:
        """Note a mistake at this place; reading goes on."""
        self.document.problem(self.line, self.column, message)

    def problem_at_key(self, message: str) -> None:
        """Note a mistake at this entry's key."""
        (self.key or self).problem(message)


class Document(msgspec.Struct, eq=False):
    """One parsed template. Nothing here stops at a mistake, so that one reading finds them all."""

    file: str
    problems: list[TemplateProblem] = msgspec.field(default_factory=list)
    parameters: dict[str, str] = msgspec.field(default_factory=dict)  # the names that have a default, and the default
    _references: list[tuple[str, Node]] = msgspec.field(default_factory=list)
    _conditions: list[Node] = msgspec.field(default_factory=list)  # the names in ``If``

    def problem(self, line: int, column: int, message: str) -> None:
        """Note a mistake."""
        self.problems.append(TemplateProblem(self.file, line, column, message))

    def check_references(self, root: Node) -> None:
        """Each name in ``Ref``, ``GetAtt`` or ``Sub`` must be a resource or a parameter, in ``If`` a condition."""
        known = [*root["Resources"].entries(), *root["Parameters"].entries()]
        for name, node in self._references:
            if name not in known and name not in _PSEUDO_PARAMETERS:
                node.problem(f"{name!r} is neither a resource nor a parameter{did_you_mean(name, known)}")
        for node in self._conditions:
            if node.text not in root["Conditions"].entries():
                node.problem(f"{node.text!r} is no condition{did_you_mean(node.text, root['Conditions'].entries())}")

    def convert(self, node: yaml.Node, path: str = "", key: Node | None = None) -> Node:
        """The tree below *node*."""
        function = node.tag.removeprefix("!") if node.tag.startswith("!") else None
        content: Any = None
        if isinstance(node, yaml.ScalarNode):
            content = _scalar(node)
        elif isinstance(node, yaml.SequenceNode):
            content = [self.convert(child, f"{path}[{index}]") for index, child in enumerate(node.value)]
        else:
            content = self._entries(node, path)
            name, *others = content or ("",)
            if not others and (name == "Ref" or name.startswith("Fn::")):  # a call that is written out
                function, content = name.removeprefix("Fn::"), content[name].content
        line, column = _place(node.start_mark)
        if function == "If" and isinstance(content, list) and len(content) == 3:
            part: Node
            condition, part, _ = content
            self._conditions.append(condition)
            if isinstance(part.content, (list, dict)):
                return replace(part, path=path, key=key)  # an optional part is checked as if it were there
        if not function:
            return Node(self, path, line, column, content, key)
        call = Node(self, path, line, column, _unresolved(function, content), key, function)
        if function in ("Ref", "GetAtt", "Sub"):
            names = (found[1].partition(".")[0] for found in _PLACEHOLDER.finditer(str(call.content)))
            self._references += [(name, call) for name in names if name != function]
        return call

    def _entries(self, node: yaml.Node, path: str) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        for key_node, value_node in node.value:
            name = str(key_node.value)
            key = Node(self, path, *_place(key_node.start_mark), name)
            if name in entries:
                first = entries[name].key or entries[name]
                key.problem(f"{name!r} is defined twice here, first in line {first.line}")
            entries[name] = self.convert(value_node, f"{path}.{name}" if path else name, key)
        return entries


def parse(text: str, file: str) -> Node:
    """The root of the document.

    Raises:
        TemplateInvalid: the text is no YAML that CloudFormation reads.
    """
    document = Document(file)
    root = None
    try:
        _check_events(text, document)
        root = None if document.problems else yaml.compose(text, Loader=_Loader)
        if root is None and not document.problems:
            document.problem(1, 1, "the file is empty")
    except yaml.MarkedYAMLError as error:
        what = ", ".join(part for part in (error.context, error.problem) if part)
        document.problem(*_place(error.problem_mark or error.context_mark), f"this is not YAML: {what}")
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        column = error.position - (before.rfind("\n") + 1) + 1
        document.problem(before.count("\n") + 1, column, f"this is not YAML: {error.reason}")
    if document.problems or root is None:
        raise TemplateInvalid(document.problems)
    node = document.convert(root)
    defaults = {name: parameter["Default"].text for name, parameter in node["Parameters"].entries().items()}
    document.parameters |= {name: default for name, default in defaults.items() if default is not None}
    return node


def _check_events(text: str, document: Document) -> None:
    """Note what must not be composed: an alias, which can make the document endless, and values nested too deep.

    Composing recurses in C, where a document that is deep enough ends the process.

    Raises:
        yaml.YAMLError: the text is no YAML.
    """
    depth = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.AliasEvent):
            document.problem(*_place(event.start_mark), "CloudFormation refuses YAML aliases; write the value out")
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            document.problem(
                *_place(event.start_mark), f"this is nested more than {DEEPEST} deep; no template needs that"
            )
            return


def did_you_mean(name: str | None, known: Iterable[str | None]) -> str:
    """The end of a sentence about an unknown *name*."""
    near = get_close_matches(str(name), names := sorted(map(str, known)), n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known: {', '.join(names)}" if names else ""


def _unresolved(function: str, argument: Any) -> str:
    """The text that a call stands for, with ``${Name}`` for each value that comes from elsewhere."""
    if function == "GetAtt" and isinstance(argument, list):
        argument = ".".join(str(part.text) for part in argument) or None
    if function == "Sub" and isinstance(argument, str):
        return argument
    is_name = function in ("Ref", "GetAtt") and isinstance(argument, str)
    return f"${{{argument if is_name else function}}}"


def _scalar(node: yaml.ScalarNode) -> str | None:
    """As written: CloudFormation takes numbers, dates and fractions so. Booleans become ``true`` and ``false``."""
    if node.tag == "tag:yaml.org,2002:null":
        return None
    text = str(node.value)
    if node.tag == "tag:yaml.org,2002:bool":
        return str(yaml.SafeLoader.bool_values[text.lower()]).lower()
    return text


def _place(mark: Any) -> tuple[int, int]:
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)
