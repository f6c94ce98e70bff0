"""The image has what its containers and its operators start; ``make image`` builds and runs it (``test_image.py``)."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.any_python
ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "infra" / "Dockerfile").read_text()
COPIED = re.findall(r"^COPY (\w+) \1$", TEXT, re.MULTILINE)
# Refuses every import of a library that only an extra of pyproject.toml installs.
CORE_ONLY = """
import runpy, sys
class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {extras!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
sys.path.insert(0, ".")
sys.argv[0] = "emulator"
runpy.run_module("emulator", run_name="__main__")
"""


PLAIN = re.sub(r"^(#.*)?\n", "", TEXT, flags=re.MULTILINE)  # without comments
INSTRUCTIONS = re.findall(r"^(\w+) (.*?[^\\])$", PLAIN, re.MULTILINE | re.DOTALL)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """The folder /app of the image."""
    for name in COPIED:
        shutil.copytree(ROOT / name, tmp_path / "app" / name)
    return tmp_path / "app"


def run(app: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {re.match(r"[A-Za-z]+", each)[0].lower() for each in extras["emulator"]} - {"rich"}  # type: ignore[index]
    return subprocess.run(
        [sys.executable, "-c", CORE_ONLY.format(extras=names), *arguments],
        cwd=app,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_build_knows_each_instruction_and_the_shell_each_step() -> None:
    known = {"ARG", "CMD", "COPY", "ENV", "FROM", "RUN", "USER", "VOLUME", "WORKDIR"}
    assert {name for name, _ in INSTRUCTIONS} == known, "a line that is none is part of no instruction"
    assert "".join(f"{name} {rest}\n" for name, rest in INSTRUCTIONS) == PLAIN
    for name, step in INSTRUCTIONS:
        if name == "RUN":
            read = subprocess.run(["sh", "-n", "-c", step], capture_output=True, text=True, check=False)
            assert (read.returncode, read.stderr) == (0, ""), step


def sources() -> list[str]:
    """The files and folders of the checkout that the build copies."""
    copied = [words.split()[:-1] for name, words in INSTRUCTIONS if name == "COPY" and "--from" not in words]
    return [each for words in copied for each in words]


def test_everything_that_the_build_copies_is_there_and_nothing_else_reaches_it() -> None:
    """A checkout has more: ``infra/host.env`` has secrets, and an image is passed on."""
    assert sources()
    assert [each for each in sources() if not (ROOT / each).exists()] == []
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    assert {line for line in lines if line.startswith("!")} == {f"!{each}" for each in sources()}
    assert lines[-2:] == ["**/*.env", "**/__pycache__"], "what stands last decides"


def test_what_the_checkout_gives_gets_its_rights_first_and_the_image_takes_it_from_there() -> None:
    """Two checkouts differ in the rights of their files, by the umask; Docker copies them as they are."""
    release, image = PLAIN.split("FROM ${PYTHON}\n")
    assert "RUN chmod -R u=rwX,go=rX ." in release
    assert [line for line in image.splitlines() if line.startswith("COPY ") and "--from=release" not in line] == []
    assert "COPY --from=release /app .\n" in image


def test_no_step_leaves_a_time_a_cache_or_a_log(tmp_path: Path) -> None:
    assert ("ARG", "SOURCE_DATE_EPOCH") in INSTRUCTIONS, "useradd writes the day into /etc/shadow"
    gone = "rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/ldconfig/* /var/log/apt /var/log/*.log /root/.npm\n"
    assert f"&& {gone}" in PLAIN
    assert run_step(tmp_path, "apt-get install").stdout.splitlines()[-1].startswith("rm -rf /var/lib/apt/lists/")
    installed = run_step(tmp_path, "pip install").stdout
    assert "--no-compile" in installed, "pip writes the time of a source into its .pyc"
    assert "\nrm requirements.txt installed.json\n" in installed, "pip's report names the kernel that it ran on"
    compiling = "PYTHONHASHSEED=0 python -m compileall -qq --invalidation-mode unchecked-hash"
    assert PLAIN.count(compiling) == PLAIN.count("compileall") == 2, "no time in a .pyc, and one order of a frozen set"


def test_the_build_fetches_only_what_the_lists_of_this_release_name() -> None:
    """pip by constraints.txt, npm by the lock files; the base's digest is an argument of the build."""
    steps = "\n".join(step for name, step in INSTRUCTIONS if name == "RUN")
    assert re.findall(r"\b(?:curl|wget|git|npm (?:install|ci|exec)|npx)\b", steps) == []
    assert [each for each in re.findall(r"pip install .*", steps) if "-c constraints.txt" not in each] == []
    assert ("FROM", "${PYTHON}") in INSTRUCTIONS


def test_the_command_line_is_in_the_image_and_needs_no_library_of_the_emulator(app: Path) -> None:
    asked = run(app, "status", POSTROOM_URL="http://127.0.0.1:1")
    assert asked.returncode == 69, asked.stderr
    assert asked.stderr == "error: http://127.0.0.1:1 does not answer: Connection refused\n"
    assert "approvals" in run(app, "--help").stdout
    assert run(app, "version").returncode == 0


def test_its_script_starts_it_from_any_folder(app: Path, tmp_path: Path) -> None:
    made = re.search(r"^RUN (printf .*/usr/local/bin/emulator)$", TEXT, re.MULTILINE | re.DOTALL)
    assert made is not None
    text = made[1].replace("\\\n", "").replace("/usr/local/bin", str(tmp_path)).replace("/app", str(app))
    subprocess.run(["sh", "-c", text], check=True)
    shown = subprocess.run(
        [tmp_path / "emulator", "status", "--url", "http://127.0.0.1:1"],
        cwd="/",
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (shown.returncode, shown.stderr) == (
        69, "error: http://127.0.0.1:1 does not answer: Connection refused\n",
    )  # fmt: skip


def test_it_is_called_emulator_and_finds_the_api_of_its_task() -> None:
    assert "> /usr/local/bin/emulator" in TEXT
    assert "POSTROOM_URL=http://127.0.0.1:3777" in TEXT
    assert '"3777"' in (ROOT / "template.yaml").read_text()


def test_everything_that_the_template_starts_is_in_the_image() -> None:
    modules = set(re.findall(r"python,\s*-m,\s*(\w+)", (ROOT / "template.yaml").read_text()))
    assert modules
    assert modules <= set(COPIED)


def run_step(tmp_path: Path, holds: str, **arguments: str) -> "subprocess.CompletedProcess[str]":
    """The one step of the build that has *holds* in it. What would change this machine prints its arguments."""
    (step,) = (each for each in re.findall(r"^RUN (.*?[^\\])$", TEXT, re.MULTILINE | re.DOTALL) if holds in each)
    for name in ("apt-get", "ln", "pip", "rm"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name} $*"\n')
        (tmp_path / name).chmod(0o755)
    compiles = f'case "$*" in "-m compileall"*) echo "python $*" ;; *) exec {sys.executable} "$@" ;; esac'
    (tmp_path / "python").write_text(f"#!/bin/sh\n{compiles}\n")
    (tmp_path / "python").chmod(0o755)
    (tmp_path / "infra").mkdir(exist_ok=True)
    (tmp_path / "infra" / "agents.sh").write_text('#!/bin/sh\necho "agents.sh $*"\n')
    (tmp_path / "infra" / "agents.sh").chmod(0o755)
    (tmp_path / "infra" / "pinned.py").write_text("import sys; print('pinned.py', *sys.argv[1:])")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return subprocess.run(
        ["sh", "-c", step],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}", **arguments},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_leash_is_in_the_image(tmp_path: Path) -> None:
    assert "install --yes --no-install-recommends bubblewrap\n" in run_step(tmp_path, "bubblewrap").stdout


def test_agents_programs_are_installed_where_they_are_asked_for_by_their_lock_files(tmp_path: Path) -> None:
    assert "npm" not in run_step(tmp_path, "agents.sh", AGENTS="").stdout.replace("/root/.npm", "")
    made = run_step(tmp_path, "agents.sh", AGENTS="claude codex")
    assert made.returncode == 0, made.stderr
    assert "agents.sh /usr/local/agents claude codex\nln -s /usr/local/agents/bin/* /usr/local/bin/\n" in made.stdout
    assert "apt-get purge --yes --auto-remove nodejs npm\n" in made.stdout, "the programs need neither"
    assert "--no-install-recommends bubblewrap nodejs npm\n" in made.stdout
    assert {"infra/agents.sh", "infra/programs"} <= set(
        re.findall(r"^COPY --from=release /app/(\S+) \1$", TEXT, re.MULTILINE)
    )


def test_the_libraries_of_an_extra_are_installed_where_it_is_asked_for(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extras, wanted in (("", []), ("api", project["optional-dependencies"]["api"])):
        made = run_step(tmp_path, "pip install", EXTRAS=extras)
        assert made.returncode == 0, made.stderr
        assert "--only-binary :all: " in made.stdout, "no script of a library runs"
        assert "\npinned.py installed.json\n" in made.stdout, "a library that is not named ends the build"
        assert (tmp_path / "requirements.txt").read_text().splitlines() == [*project["dependencies"], *wanted]
