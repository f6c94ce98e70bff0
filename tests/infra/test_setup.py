"""``infra/setup.sh`` on machines of every kind, with other programs in place of pip, apt-get and Java."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.any_python
ROOT = Path(__file__).parents[2]
PIP = """#!/bin/sh
[ "$*" != '-c import pip' ] || exit 0
echo "$@" >> started
case "$*" in
    *compileall*) exit 1;;
    infra/pinned.py*) echo "$PINNED"; exit "${#PINNED}";;
esac
echo "$PIP_CONSTRAINT $PIP_BUILD_CONSTRAINT" > held
echo 'WARNING: Running pip as the root user can result in broken permissions'
echo 'Collecting apsw>=3.51.3 (from postroom==0.1.0)'
echo 'Collecting rich>=14 (from postroom==0.1.0)'
[ -z "$PIP_TAKES" ] || sleep "$PIP_TAKES"
echo 'Installing collected packages: apsw, rich, postroom'
if [ -n "$PIP_FAILS" ]; then echo 'ERROR: Could not find a version that satisfies the requirement apsw'; exit 1; fi
"""


class Machine:
    """A project folder with a ready .venv, and a PATH on which *programs* come first."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.programs = folder / "programs"
        (self.project / "infra").mkdir(parents=True)
        self.programs.mkdir()
        shutil.copy(ROOT / "infra" / "setup.sh", self.project / "infra")
        for name in ("pyproject.toml", "constraints.txt"):
            (self.project / name).touch()
        self._write(self.project / ".venv" / "bin" / "python", PIP)
        self.program("id", "echo ${USER_ID:-1000}")

    def program(self, name: str, script: str) -> None:
        self._write(self.programs / name, f"#!/bin/sh\n{script}\n")

    def java(self, version: str) -> str:
        """The script of a Java of that version."""
        return f"echo 'openjdk version \"{version}\" 2024-01-01' >&2"

    def debian(self, java: str) -> None:
        """An apt-get of root that installs Java *java*; it notes what it was asked for."""
        self._write(self.programs / "java-of-debian", f"#!/bin/sh\n{self.java(java)}\n")
        install = f'cp "{self.programs}/java-of-debian" "{self.programs}/java"'
        self.program("apt-get", f'echo "$@" >> {self.project}/asked\ncase "$*" in *install*) {install};; esac')

    @property
    def asked(self) -> str:
        return (self.project / "asked").read_text()

    def setup(self, mode: str = "dev", **environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["sh", "infra/setup.sh", mode],
            cwd=self.project,
            env={"PATH": f"{self.programs}:/usr/bin:/bin", **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @staticmethod
    def _write(path: Path, script: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script)
        path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_java_is_the_distributions_default_of_whatever_version(machine: Machine) -> None:
    """Debian 13 has no openjdk-17, and Ubuntu 20.04 no openjdk-21."""
    machine.program("java", "exit 127")
    machine.debian(java="21.0.5")
    done = machine.setup(USER_ID="0")
    assert done.returncode == 0, done.stderr
    assert "install -y -qq --no-install-recommends default-jre-headless" in machine.asked
    assert "openjdk" not in machine.asked


def test_a_default_that_is_too_old_is_told_with_its_version(machine: Machine) -> None:
    machine.program("java", "exit 127")
    machine.debian(java="11.0.24")
    done = machine.setup(USER_ID="0")
    assert done.returncode == 1
    assert "Spark needs Java 17 or newer, and this system's default is Java 11" in done.stderr


def test_a_java_home_that_is_too_old_is_told_because_spark_would_start_it(machine: Machine) -> None:
    old = machine.project / "jdk" / "bin" / "java"
    machine._write(old, f"#!/bin/sh\n{machine.java('11.0.24')}\n")
    machine.program("java", machine.java("21.0.5"))
    done = machine.setup(JAVA_HOME=str(old.parents[1]))
    assert done.returncode == 1
    assert f"JAVA_HOME ({old.parents[1]}) is not that" in done.stderr


def test_without_root_a_missing_java_is_named_with_the_command(machine: Machine) -> None:
    machine.program("java", "exit 127")
    machine.program("apt-get", "exit 1")
    done = machine.setup()
    assert done.returncode == 1
    assert "sudo apt-get install default-jre-headless" in done.stderr


@pytest.mark.parametrize(("user", "can_install"), [("0", True), ("0", False), ("1000", True)])
def test_a_missing_leash_is_installed_or_told_and_stops_nothing(machine: Machine, user: str, can_install: bool) -> None:
    """Not even in a container without a network."""
    outcome = f"touch {machine.programs}/bwrap" if can_install else "exit 100"
    machine.program("apt-get", f'echo "$@" >> {machine.project}/asked\ncase "$*" in *install*) {outcome};; esac')
    done = machine.setup("run", USER_ID=user, PATH=f"{machine.programs}:{_without_bubblewrap(machine)}")
    assert done.returncode == 0, done.stderr
    is_installed = user == "0" and can_install
    assert ("run without a leash" not in done.stderr) == is_installed
    assert (machine.project / "asked").exists() == (user == "0")


def _without_bubblewrap(machine: Machine) -> Path:
    """The programs of this machine but bubblewrap, in one folder."""
    system = machine.project.parent / "system"
    system.mkdir()
    for program in (*Path("/bin").iterdir(), *Path("/usr/bin").iterdir()):
        if program.name != "bwrap" and not (system / program.name).is_symlink():
            (system / program.name).symlink_to(program)
    return system


def test_progress_is_told_in_plain_words_and_pips_own_go_to_a_file(machine: Machine) -> None:
    done = machine.setup("run", PIP_TAKES="6")
    assert done.returncode == 0, done.stderr
    assert "setup: installing Postroom and its libraries into .venv (once; a minute or two)" in done.stderr
    assert "setup: 5 s: 2 packages found so far, the newest is rich" in done.stderr
    assert "WARNING" not in done.stderr + done.stdout
    assert "WARNING" in (machine.project / ".venv" / "setup.log").read_text()
    assert machine.setup("run").stderr == "", "it is ready"


def test_packages_are_compiled_on_all_cores_and_once(machine: Machine) -> None:
    """pip compiles on one core. A file that no Python of this version understands stops nothing."""
    done = machine.setup("run")
    assert done.returncode == 0, done.stderr
    pip, _, compiler = (machine.project / "started").read_text().splitlines()
    assert "--no-compile" in pip.split()
    assert compiler.startswith("-m compileall -qq -j 0 -x /(tests|pip|")
    assert compiler.endswith(" .venv/lib")


def test_a_failed_installation_shows_the_error_and_is_tried_again(machine: Machine) -> None:
    failed = machine.setup("run", PIP_FAILS="1")
    assert failed.returncode == 1
    assert "ERROR: Could not find a version" in failed.stderr
    assert "all of pip's words are in .venv/setup.log" in failed.stderr
    assert machine.setup("run").returncode == 0


def test_what_the_constraints_do_not_name_stops_the_setup(machine: Machine) -> None:
    """pip takes them for what it installs, and for what it starts to build a package."""
    failed = machine.setup("run", PINNED="pip installed evil")
    assert (failed.returncode, failed.stderr.splitlines()[-1]) == (1, "setup: pip installed evil")
    assert (machine.project / "held").read_text() == "constraints.txt constraints.txt\n"
    assert (machine.project / "started").read_text().splitlines()[1] == "infra/pinned.py .venv/installed.json"
    assert "--report .venv/installed.json" in (machine.project / "started").read_text()
    assert machine.setup("run").returncode == 0, "it is tried again"


def test_nothing_names_one_version_of_java_that_some_systems_lack() -> None:
    for path in (*ROOT.glob("infra/**/*"), *ROOT.glob("spark_jobs/**/*.py"), ROOT / "README.md", ROOT / "Makefile"):
        if path.is_file() and path.suffix in (".py", ".sh", ".md", ""):
            assert "openjdk-" not in path.read_text(), path


def test_the_libraries_go_where_venv_names_a_folder(machine: Machine) -> None:
    machine.program("java", machine.java("21.0.5"))
    (machine.project / ".venv").rename(machine.project / "other")
    done = machine.setup(VENV="other")
    assert done.returncode == 0, done.stderr
    assert "libraries into other" in done.stderr
    assert (machine.project / "other" / ".ready-dev").is_file()
    assert not (machine.project / ".venv").exists()


def test_the_benchmarks_take_a_jar_that_is_named(machine: Machine) -> None:
    machine.debian(machine.java("17"))
    done = machine.setup("jdbc", POSTROOM_BENCH_JDBC="/opt/sqlite-jdbc.jar")
    assert (done.returncode, done.stderr) == (0, "")
    assert not (machine.project / "asked").exists()


def test_a_library_that_is_new_reaches_a_folder_that_was_made_for_the_tests(machine: Machine) -> None:
    """``make test``, then ``git pull``, then ``make run``."""
    machine.program("java", machine.java("21.0.5"))
    assert machine.setup("dev").returncode == 0
    stamp = (machine.project / ".venv" / ".ready-dev").stat().st_mtime
    os.utime(machine.project / "pyproject.toml", (stamp + 10, stamp + 10))
    done = machine.setup("run")
    assert done.returncode == 0, done.stderr
    installed = [line for line in (machine.project / "started").read_text().splitlines() if "pip install" in line]
    assert len(installed) == 2
    assert installed[1].endswith(" -e .[emulator,api,spark,dev,bench,docs]"), "what the tests need stays"


@pytest.mark.parametrize("left", ["a Python without pip", "a link to nothing"])
def test_a_folder_that_can_install_nothing_is_made_anew(machine: Machine, left: str) -> None:
    """The making was broken off, or the system has a newer Python."""
    assert machine.setup("run").returncode == 0
    python = machine.project / ".venv" / "bin" / "python"
    kept = '[ -L "$3/bin/python" ] || '  # as venv does
    machine.program("python3.11", f'[ "$1 $2" != "-m venv" ] || {kept}cp {machine.programs}/made "$3/bin/python"')
    python.rename(machine.programs / "made")
    if left == "a link to nothing":
        python.symlink_to("/usr/bin/python3.0")
    else:
        machine._write(python, "#!/bin/sh\nexit 1\n")
    done = machine.setup("run")
    assert done.returncode == 0, done.stderr
    assert "setup: making .venv with " in done.stderr
    assert "setup: done" in done.stderr
