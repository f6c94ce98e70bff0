"""The order of the house: one name for one class, folders of a readable size, and tests where their code is."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("shared", "functions", "infra", "emulator", "spark_jobs")
MOST_FILES = 24
# Tests that mirror no folder: whole systems, recorded webhooks, and the functions that the runner's tests serve.
OWN_FOLDERS = {
    "agents", "benchmarks", "benchmarks/agents", "benchmarks/harness", "benchmarks/spark", "clients",
    "clients/programs", "e2e", "e2e/crash", "e2e/standby", "events", "events/discord", "events/telegram",
    "functions/past", "infra/samples",
}  # fmt: skip


def modules(*rooms: str) -> list[Path]:
    return [path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]


def public_classes() -> dict[str, list[str]]:
    """The files of each public class of the product, by its name."""
    found = defaultdict(list)
    for path in modules(*ROOMS):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(ROOT)))
    return found


def test_public_class_names_are_unique():
    """A reader who searches for a class finds one; a class that only its own file uses begins with an underscore."""
    assert {name: paths for name, paths in public_classes().items() if len(paths) > 1} == {}


def test_a_folder_has_few_enough_files_to_be_read_at_a_glance():
    sizes = defaultdict(int)
    for path in modules(*ROOMS, "tests"):
        sizes[str(path.parent.relative_to(ROOT))] += path.name != "__init__.py"
    assert {folder: size for folder, size in sizes.items() if size > MOST_FILES} == {}


def test_tests_mirror_the_folders_of_the_code():
    """A folder of tests belongs to a folder, or to one module whose tests are too many for a file."""
    folders = {str(path.parent.relative_to(ROOT / "tests")) for path in modules("tests")}
    known = {each for each in folders if (ROOT / each).is_dir() or (ROOT / f"{each}.py").is_file()}
    assert folders - known - OWN_FOLDERS == set()
