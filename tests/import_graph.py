"""The imports of the product as a graph: also those inside functions and under ``TYPE_CHECKING``."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

Graph = Mapping[str, set[str]]


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of the file at *path*, the module first; several tests read all files."""
    return tuple(ast.walk(ast.parse(path.read_text())))


def graph_of(root: Path, packages: Iterable[str]) -> dict[str, set[str]]:
    """The modules below *root* in *packages*, by dotted name, each with those that it imports anywhere in its text.

    An import of ``a.b.c`` runs ``a.b`` first, so it counts as an import of both, except where the importer lies in it.
    """
    files = {_module(path.relative_to(root)): path for each in packages for path in sorted((root / each).rglob("*.py"))}
    return {name: set(_imported(name, path, files)) for name, path in files.items()}


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(name: str, path: Path, files: Mapping[str, Path]) -> Iterator[str]:
    for node in nodes_of(path):
        for written in _names(node):
            parts = written.split(".")
            known = [each for end in range(len(parts)) if (each := ".".join(parts[: end + 1])) in files]
            yield from (each for each in known[:-1] if not name.startswith(f"{each}.") and each != name)
            yield from (each for each in known[-1:] if each != name)


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (each.name for each in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert not node.level, "imports name their module from the root"
        yield from (f"{node.module}.{each.name}" for each in node.names)


def siblings(graph: Graph, folder: str) -> dict[str, set[str]]:
    """What lies directly in *folder*, its files and folders, each with those of them that it imports."""

    def child(module: str) -> str | None:
        return module[len(folder) + 1 :].partition(".")[0] if module.startswith(f"{folder}.") else None

    found: dict[str, set[str]] = {}
    for module, imports in graph.items():
        if (own := child(module)) is not None:
            found.setdefault(own, set()).update({name for name in map(child, imports) if name} - {own})
    return found


def circles(graph: Graph) -> list[list[str]]:
    """The groups of nodes that reach one another, each sorted."""
    reach = {node: reachable(graph, node) for node in graph}
    groups = {tuple(sorted(each for each in reach[node] if node in reach.get(each, ()))) for node in graph}
    return [list(group) for group in sorted(groups - {()})]


def reachable(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    rest = [start]
    while rest:
        new = graph.get(rest.pop(), set()) - found
        found |= new
        rest += new
    return found
