"""The order of the house: one name for one class, rooms with one order, and tests where their code is.

Files and folders have a readable size.
"""

import ast
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

from tests.import_graph import circles, graph_of, nodes_of, siblings

pytestmark = pytest.mark.any_python
ROOT = Path(__file__).parents[1]
ROOMS = ("shared", "functions", "infra", "emulator", "spark_jobs")
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
IMPORT = (ast.Import, ast.ImportFrom)
MOST_ROOMS, MOST_ARROWS = 10, 40  # of `shared`
MOST_FILES = 20  # of a folder, with `__init__.py`
MOST_LINES = 400  # of a file
# Tests that mirror no folder: whole systems, recorded webhooks, and the functions that the runner's tests serve.
OWN_FOLDERS = {
    "agents", "benchmarks", "benchmarks/agents", "benchmarks/harness", "benchmarks/spark", "clients",
    "clients/programs", "e2e", "e2e/crash", "e2e/standby", "events", "events/discord", "events/telegram",
    "extending", "field", "functions/past", "infra/samples", "shared/queue/model", "simulation",
    "simulation/agents", "simulation/long_runs", "simulation/machine", "simulation/mutants", "simulation/people",
    "simulation/platforms", "soak",
}  # fmt: skip


def modules(*rooms: str) -> list[Path]:
    return [path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]


def public_classes() -> dict[str, list[str]]:
    """The files of each public class of the product, by its name."""
    found = defaultdict(list)
    for path in modules(*ROOMS):
        for node in ast.iter_child_nodes(nodes_of(path)[0]):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(ROOT)))
    return found


def test_public_class_names_are_unique():
    """A reader who searches for a class finds one; a class that only its own file uses begins with an underscore."""
    assert {name: paths for name, paths in public_classes().items() if len(paths) > 1} == {}


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    return graph_of(ROOT, ROOMS)


def test_no_circle_of_imports(graph: dict[str, set[str]]):
    """Neither between modules nor, in any folder, between its files and folders; no import in a function hides one."""
    folders = {module.rpartition(".")[0] for module in graph} - {""}
    found = {folder: circles(siblings(graph, folder)) for folder in sorted(folders)}
    assert ({folder: each for folder, each in found.items() if each}, circles(graph)) == ({}, [])


def test_shared_has_few_rooms_and_no_arrow_up(graph: dict[str, set[str]]):
    """An arrow leads from a room to another that it imports; the order is that of the contract."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each.get("containers") == ["shared"])
    floor = {room.strip(): number for number, rooms in enumerate(layers) for room in rooms.split("|")}
    rooms = siblings(graph, "shared")
    arrows = {(one, other) for one, others in rooms.items() for other in others}
    assert set(rooms) == set(floor)
    assert len(rooms) <= MOST_ROOMS
    assert len(arrows) <= MOST_ARROWS, sorted(arrows)
    assert {(one, other) for one, other in arrows if floor[one] >= floor[other]} == set()


@pytest.mark.parametrize(
    "text",
    ["from a.low import up\n", "def f():\n    import a.low.up\n", "if TYPE_CHECKING:\n    from a.low.up import X\n"],
)
def test_a_circle_is_found_wherever_its_import_stands(tmp_path: Path, text: str):
    for name, content in {"a/low/base.py": text, "a/low/up.py": "from a.high import top\n", "a/high/__init__.py": "",
                          "a/high/top.py": "from a.low.base import Y\n"}.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    graph = graph_of(tmp_path, ["a"])
    assert circles(graph) == [["a.high.top", "a.low.base", "a.low.up"]]
    assert circles(siblings(graph, "a")) == [["high", "low"]]


def test_an_import_inside_a_function_says_why():
    """Each file that has one says so beside one of them: what the process is spared that does not call the function."""
    silent = []
    for path in modules(*ROOMS):
        functions = (node for node in nodes_of(path) if isinstance(node, FUNCTION))
        late = [each for node in functions for each in ast.walk(node) if isinstance(each, IMPORT)]
        lines = path.read_text().splitlines()
        if late and not any("#" in line for each in late for line in lines[each.lineno - 1 : each.end_lineno]):
            silent.append(str(path.relative_to(ROOT)))
    assert silent == []


def test_a_folder_has_few_enough_files_to_be_read_at_a_glance():
    sizes: dict[str, int] = defaultdict(int)
    for path in modules(*ROOMS, "tests"):
        sizes[str(path.parent.relative_to(ROOT))] += 1
    assert {folder: size for folder, size in sizes.items() if size > MOST_FILES} == {}


def test_a_file_is_short_enough_to_hold_one_idea():
    sizes = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in modules(*ROOMS, "tests")}
    assert {name: size for name, size in sizes.items() if size > MOST_LINES} == {}, "move a whole idea out"


def test_tests_mirror_the_folders_of_the_code():
    """A folder of tests belongs to a folder, or to one module whose tests are too many for a file."""
    folders = {str(path.parent.relative_to(ROOT / "tests")) for path in modules("tests")}
    known = {each for each in folders if (ROOT / each).is_dir() or (ROOT / f"{each}.py").is_file()}
    assert folders - known - OWN_FOLDERS == set()


def test_each_migration_has_a_number_of_its_own():
    """Of two with one number only one would run."""
    names = sorted(path.name for path in (ROOT / "shared/db/migrations").glob("*.sql"))
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
