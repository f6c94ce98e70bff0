"""Reads a CloudFormation template into nodes that know their line and column. Knows nothing of what we deploy."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import yaml

# C where PyYAML was built with it: 10 times as fast, and its marks are the same.
_Loader: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLAIN = {
    "tag:yaml.org,2002:int": yaml.SafeLoader.construct_yaml_int,
    "tag:yaml.org,2002:bool": yaml.SafeLoader.construct_yaml_bool,
    "tag:yaml.org,2002:null": yaml.SafeLoader.construct_yaml_null,
}
_PLACEHOLDER = re.compile(r"\$\{([^!{}][^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong, and where: line and column count from 1."""

    file: str
    line: int
    column: int
    message: str
    severity: str = "error"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column} {self.severity} {self.message}"


@dataclass(frozen=True, slots=True)
class Call:
    """An intrinsic function: ``Ref``, ``Sub``, ``GetAtt``, ``Join`` and so on, whichever way it was written."""

    function: str
    argument: "Node"


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place.

    Attributes:
        value: str, int, bool, None, ``dict[str, Node]``, ``list[Node]`` or :class:`Call`.
        keys: for a mapping, where each key stands.
    """

    value: Any
    line: int
    column: int
    keys: Mapping[str, "Node"] = field(default_factory=dict)

    def __getitem__(self, key: str) -> "Node | None":
        """The value under *key*; None if this is no mapping or has no such key."""
        return self.value.get(key) if isinstance(self.value, dict) else None

    def __iter__(self) -> Iterator["Node"]:
        """The elements of a list; nothing for any other value."""
        return iter(self.value if isinstance(self.value, list) else ())

    def items(self) -> Iterator[tuple[str, "Node"]]:
        """The entries of a mapping; nothing for any other value."""
        return iter(self.value.items() if isinstance(self.value, dict) else ())

    def reference(self) -> str | None:
        """The name in ``!Ref name``, or None."""
        if isinstance(self.value, Call) and self.value.function == "Ref" and isinstance(self.value.argument.value, str):
            return self.value.argument.value
        return None


def parse(text: str, file: str) -> tuple[Node | None, list[Problem]]:
    """The document's root, and what is wrong with its YAML. Without a root there is at least one problem."""
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        what = ", ".join(part for part in (error.context, error.problem) if part)
        return None, [Problem(file, line, column, f"this is not YAML: {what}")]
    except yaml.reader.ReaderError as error:
        line, column = _place(text, error.position)
        return None, [Problem(file, line, column, f"this is not YAML: {error.reason}")]
    if root is None:
        return None, [Problem(file, 1, 1, "the file is empty")]
    events = yaml.parse(text, _Loader) if "*" in text else ()
    aliases = [event.start_mark for event in events if isinstance(event, yaml.AliasEvent) and event.start_mark]
    if aliases:  # they could also make the document endless
        message = "CloudFormation refuses YAML aliases; write the value out"
        return None, [Problem(file, mark.line + 1, mark.column + 1, message) for mark in aliases]
    problems: list[Problem] = []
    return _convert(root, file, problems), problems


def text_of(node: Node, parameters: Mapping[str, str]) -> str | None:
    """The text that *node* stands for, as far as it is known before deployment; None if it is no text at all.

    Parameters give their default (*parameters*). Whatever only the cloud knows stays as ``${Name}``.
    """
    if isinstance(node.value, Call):
        return _called(node.value, parameters)
    if isinstance(node.value, bool):
        return str(node.value).lower()
    return str(node.value) if isinstance(node.value, str | int) else None


def references(node: Node) -> Iterator[tuple[str, Node]]:
    """Every name that ``Ref``, ``GetAtt`` or ``Sub`` mention below *node*, each with the place to point at."""
    if isinstance(node.value, Call):
        yield from _mentioned(node.value)
        yield from references(node.value.argument)
    children = node.value.values() if isinstance(node.value, dict) else node
    for child in children:
        yield from references(child)


def did_you_mean(name: str, known: Mapping[str, Any] | tuple[str, ...] | list[str]) -> str:
    """The end of a sentence about an unknown *name*."""
    near = get_close_matches(name, list(known), n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known: {', '.join(sorted(known))}" if known else ""


def _called(call: Call, parameters: Mapping[str, str]) -> str | None:
    argument = call.argument.value
    if call.function == "Ref" and isinstance(argument, str):
        return parameters.get(argument, f"${{{argument}}}")
    if call.function == "GetAtt":
        parts = argument.split(".") if isinstance(argument, str) else [str(part.value) for part in call.argument]
        return f"${{{'.'.join(parts)}}}"
    if call.function == "Sub":
        template, own = _sub(call)
        if template is None:
            return None
        known = {**parameters, **{name: text_of(node, parameters) or "" for name, node in own.items()}}
        filled = _PLACEHOLDER.sub(lambda found: known.get(found[1], found[0]), template)
        return filled.replace("${!", "${")
    return f"${{{call.function}}}"


def _sub(call: Call) -> tuple[str | None, dict[str, Node]]:
    """A ``Sub``'s template and the variables that it brings along."""
    argument = call.argument.value
    if isinstance(argument, str):
        return argument, {}
    parts = list(call.argument)
    if len(parts) == 2 and isinstance(parts[0].value, str):
        return parts[0].value, dict(parts[1].items())
    return None, {}


def _mentioned(call: Call) -> Iterator[tuple[str, Node]]:
    argument = call.argument
    if call.function == "Ref" and isinstance(argument.value, str):
        yield argument.value, argument
    elif call.function == "GetAtt" and isinstance(argument.value, str):
        yield argument.value.partition(".")[0], argument
    elif call.function == "GetAtt":
        yield from ((str(part.value), part) for part in list(argument)[:1])
    elif call.function == "Sub":
        template, own = _sub(call)
        names = (found[1].partition(".")[0] for found in _PLACEHOLDER.finditer(template or ""))
        yield from ((name, argument) for name in names if name not in own)


def _convert(node: yaml.Node, file: str, problems: list[Problem]) -> Node:
    line, column = node.start_mark.line + 1, node.start_mark.column + 1
    if node.tag.startswith("!"):
        plain = Node(_value(node, file, problems), line, column)
        return Node(Call(node.tag.removeprefix("!"), plain), line, column)
    if not isinstance(node, yaml.MappingNode):
        return Node(_value(node, file, problems), line, column)
    keys: dict[str, Node] = {}
    value: dict[str, Node] = {}
    for key_node, value_node in node.value:
        key = str(key_node.value)
        place = Node(key, key_node.start_mark.line + 1, key_node.start_mark.column + 1)
        if key in keys:
            message = f"{key!r} stands twice here, first in line {keys[key].line}"
            problems.append(Problem(file, place.line, place.column, message))
        keys[key] = place
        value[key] = _convert(value_node, file, problems)
    if len(value) == 1:
        ((function, argument),) = value.items()
        if function == "Ref" or function.startswith("Fn::"):
            return Node(Call(function.removeprefix("Fn::"), argument), line, column)
    return Node(value, line, column, keys)


def _value(node: yaml.Node, file: str, problems: list[Problem]) -> Any:
    if isinstance(node, yaml.ScalarNode):
        plain = _PLAIN.get(node.tag)
        # Dates and fractions stay as written, as CloudFormation takes them.
        return plain(yaml.SafeLoader(""), node) if plain else node.value
    if isinstance(node, yaml.SequenceNode):
        return [_convert(child, file, problems) for child in node.value]
    return _convert(yaml.MappingNode("tag:yaml.org,2002:map", node.value, node.start_mark), file, problems).value


def _place(text: str, position: int) -> tuple[int, int]:
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1
