import ast
import re
from pathlib import Path

import pytest

from shared.db.engine import schema

pytestmark = pytest.mark.any_python
ROOT = Path(__file__).parents[1]
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs/promises.md").read_text())


def test_promises_name_tests():
    assert len(NAMED) > 20


@pytest.mark.parametrize(("path", "name"), NAMED, ids=[name for _, name in NAMED])
def test_a_test_that_a_promise_names_exists(path, name):
    tree = ast.parse((ROOT / path).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


WALKS = [ROOT / "docs/where-does-a-message-go.md", ROOT / "CONTRIBUTING.md"]
CODE = re.compile(r"`([\w/.]+\.(?:py|toml|yaml|sql))(?:::([\w.]+))?`")


MAPPED = ("shared", "shared/db", "emulator", "infra")


def is_room(path):
    return path.is_dir() and any(path.rglob("*.py"))


def defined(path):
    """The functions and classes of a file, and its methods as ``Class.method``."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{each.name}" for each in node.body if hasattr(each, "name"))


@pytest.mark.parametrize("page", WALKS, ids=lambda page: page.name)
def test_files_and_functions_that_a_page_walks_through_exist(page):
    named = CODE.findall(page.read_text())
    assert len(named) > 5
    assert [path for path, _ in named if not (ROOT / path).is_file()] == []
    assert [f"{path}::{name}" for path, name in named if name and name not in set(defined(ROOT / path))] == []


def test_the_map_names_every_room_of_the_code():
    rooms = {str(path.relative_to(ROOT)) for top in MAPPED for path in (ROOT / top).iterdir() if is_room(path)}
    named = set(re.findall(r"`([\w/]+)/`", (ROOT / "CONTRIBUTING.md").read_text()))
    assert rooms - named == set()
    assert [each for each in named if not (ROOT / each).is_dir()] == []


PAGES = [*sorted(ROOT.glob("docs/**/*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "infra/README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)[^)]*\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_readme_shows_the_newest_schema():
    """`python -m tests.readme` writes the block, or change the number; tests/test_readme.py compares all of it."""
    assert f"WAL, schema {max(schema.migrations())}," in (ROOT / "README.md").read_text()


# The rooms of a conversation that decide to drop an event, and the calls, functions and variables that hold a reason.
ROOMS = ("access", "inbound", "routing")
CALLS = {"Asked", "Drop", "Once", "_end", "_refuse", "drop_held", "keep", "record"}
RETURNS = {"_reason_not_to_wire", "admits", "reason_to_ignore"}
VARIABLE = "reason"
WORD = re.compile(r"[a-z]+(_[a-z]+)*")


def reasons(tree):
    """The nodes that may hold a reason: arguments of the calls, results of the functions, values of the variable."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in CALLS:
            yield from (
                each for argument in [*node.args, *(k.value for k in node.keywords)] for each in ast.walk(argument)
            )
        if isinstance(node, ast.FunctionDef) and node.name in RETURNS:
            returned = [each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value]
            yield from (each for value in returned for each in ast.walk(value) if isinstance(each, ast.Constant))
        if isinstance(node, ast.Assign) and VARIABLE in map(ast.unparse, node.targets):
            yield from ast.walk(node.value)


def test_every_reason_why_something_is_dropped_is_explained():
    page = (ROOT / "docs/access.md").read_text()
    told = {word for line in page.splitlines() if line.startswith("| `") for word in re.findall(r"`(\w+)`", line)}
    found = {
        each.value.rstrip(":")
        for room in ROOMS
        for module in (ROOT / "shared/conversation" / room).glob("*.py")
        for each in reasons(ast.parse(module.read_text()))
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and WORD.fullmatch(each.value.rstrip(":"))
    }
    others = {"allow", "ask", "refuse", "held", "again", "nobody_to_ask", "all", "public", "request_approval"}
    assert len(found - others) > 15
    assert found - others - told == set()
