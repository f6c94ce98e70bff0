"""``infra/agents.sh`` on machines with and without npm, and the lock files that it installs by."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from shared.agents.providers.claude import provider as claude
from shared.agents.providers.codex import program as codex
from shared.agents.providers.opencode import launch as opencode

ROOT = Path(__file__).parents[2]
LOCKED = ROOT / "infra" / "programs"
TESTED = {"claude": claude.TESTED, "codex": codex.TESTED, "opencode": opencode.TESTED}
# What npm makes of the lock file of claude: the program that it names.
NPM = """
case "$*" in *--ignore-scripts*) ;; *) echo 'it would run scripts' >&2; exit 1;; esac
[ "$1 $2" = 'ci --prefix' ] || exit 1
program="$3/node_modules/@anthropic-ai/claude-code-linux-x64/claude"
mkdir -p "${program%/*}"
printf '#!/bin/sh\\necho "claude of npm $*"\\n' >"$program"
chmod +x "$program"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The programs of a machine without npm."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("sh", "dirname", "chmod", "cmp", "cp", "grep", "ln", "mkdir", "mv", "rm", "uname"):
        found = next(each for each in (Path("/usr/bin") / name, Path("/bin") / name) if each.exists())
        (folder / name).symlink_to(found)
    return folder


def install(path: Path, folder: Path, *names: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [path / "sh", ROOT / "infra" / "agents.sh", folder, *names],
        env={"PATH": str(path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def write(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_without_npm_it_says_what_to_install_and_leaves_nothing(path: Path, tmp_path: Path) -> None:
    done = install(path, tmp_path / "agents")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "agents: npm is missing, which installs the agents: install Node.js 18 or newer with npm "
        "(Debian: sudo apt-get install nodejs npm), and try again\n"
    )
    assert not (tmp_path / "agents").exists()


def test_a_named_program_is_installed_linked_and_then_needs_no_npm(path: Path, tmp_path: Path) -> None:
    write(path / "npm", NPM)
    folder = tmp_path / "agents"
    done = install(path, folder, "claude")
    assert done.returncode == 0, done.stderr
    assert sorted(each.name for each in folder.iterdir()) == ["bin", "claude"]
    said = subprocess.run([folder / "bin" / "claude", "-p"], capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout == "claude of npm -p\n"
    (path / "npm").unlink()
    again = install(path, folder, "claude")
    assert (again.returncode, again.stderr) == (0, "")


def test_another_lock_file_is_another_installation(path: Path, tmp_path: Path) -> None:
    write(path / "npm", NPM)
    install(path, tmp_path / "agents", "claude")
    (tmp_path / "agents" / "claude" / "package-lock.json").write_text("{}")
    assert "installing claude" in install(path, tmp_path / "agents", "claude").stderr


def test_a_program_that_npm_leaves_out_is_told(path: Path, tmp_path: Path) -> None:
    """npm ends well where its file has another hash."""
    write(path / "npm", "exit 0")
    done = install(path, tmp_path / "agents", "codex")
    assert done.returncode == 1
    told = "agents: npm installed no codex: it got a file with another hash than infra/programs/codex/package-lock.json"
    assert told in done.stderr
    assert not (tmp_path / "agents" / "codex").exists()


def on_machine(path: Path, name: str) -> None:
    (path / "uname").unlink()
    write(path / "uname", f"echo '{name}'")


def test_a_program_that_is_not_locked_for_the_machine_is_told_before_npm_runs(path: Path, tmp_path: Path) -> None:
    on_machine(path, "Linux aarch64")
    done = install(path, tmp_path / "agents", "opencode")
    assert done.returncode == 1
    assert done.stderr == (
        "agents: infra/programs/opencode/package-lock.json has no opencode for this machine (Linux aarch64): "
        "leave it out, or install it yourself and name its path as 'program' in the agent's config\n"
    )


def test_where_none_is_named_those_of_the_machine_are_installed(path: Path, tmp_path: Path) -> None:
    on_machine(path, "Linux aarch64")
    arm64 = """
cd "$3"
for program in @anthropic-ai/claude-code-linux-arm64/claude @openai/codex-linux-arm64/vendor/a/bin/codex; do
    mkdir -p "node_modules/${program%/*}"
    printf '#!/bin/sh\n' >"node_modules/$program"
    chmod +x "node_modules/$program"
done
"""
    write(path / "npm", arm64)
    done = install(path, tmp_path / "agents")
    assert done.returncode == 0, done.stderr
    left_out = "agents: without opencode, which is locked for other machines than this one (Linux aarch64)\n"
    assert done.stderr.startswith(left_out)
    assert sorted(each.name for each in (tmp_path / "agents" / "bin").iterdir()) == ["claude", "codex"]


def test_a_machine_without_any_locked_program_is_told(path: Path, tmp_path: Path) -> None:
    on_machine(path, "Darwin arm64")
    done = install(path, tmp_path / "agents")
    assert (done.returncode, done.stderr) == (
        1,
        "agents: the lock files name programs for Linux on x86-64 or arm64, and this machine is Darwin arm64\n",
    )


def test_an_npm_that_fails_is_told_and_tried_again(path: Path, tmp_path: Path) -> None:
    write(path / "npm", "echo 'npm error network' >&2; exit 1")
    for _ in range(2):
        done = install(path, tmp_path / "agents")
        assert done.returncode == 1
        assert done.stderr.endswith(
            "npm error network\nagents: npm could not install claude: its own words are above\n"
        )
    assert not (tmp_path / "agents" / "claude").exists()


def test_without_a_folder_the_form_is_told(path: Path) -> None:
    done = subprocess.run(
        [path / "sh", ROOT / "infra" / "agents.sh"],
        env={"PATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    told = "agents: name the folder that gets the programs: infra/agents.sh FOLDER [NAME…]\n"
    assert (done.returncode, done.stderr) == (1, told)


def test_what_else_is_in_the_folder_stays(path: Path, tmp_path: Path) -> None:
    """It may be a project of the user's."""
    write(path / "npm", NPM)
    for each in ("package.json", "node_modules/own/index.js"):
        (tmp_path / "agents" / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "agents" / each).touch()
    assert install(path, tmp_path / "agents", "claude").returncode == 0
    assert (tmp_path / "agents" / "package.json").exists()
    assert (tmp_path / "agents" / "node_modules" / "own" / "index.js").exists()


def test_a_name_of_npm_is_told_to_be_none(path: Path, tmp_path: Path) -> None:
    done = install(path, tmp_path / "agents", "@openai/codex")
    assert done.returncode == 1
    assert done.stderr == "agents: '@openai/codex' is no program of an agent: say claude, codex or opencode\n"


def lock(name: str) -> dict[str, dict[str, Any]]:
    packages: dict[str, dict[str, Any]] = json.loads((LOCKED / name / "package-lock.json").read_text())["packages"]
    return packages


def test_each_program_has_a_lock_file() -> None:
    assert {each.name for each in LOCKED.iterdir()} == set(TESTED)


@pytest.mark.parametrize("name", TESTED)
def test_a_lock_file_names_the_tested_version_by_its_hash_and_no_address_or_script(name: str) -> None:
    packages = lock(name)
    wanted = json.loads((LOCKED / name / "package.json").read_text())["optionalDependencies"]
    assert packages.pop("")["optionalDependencies"] == wanted
    assert set(packages) == {f"node_modules/{each}" for each in wanted}, "nothing else comes with it"
    for package in packages.values():
        assert re.fullmatch(r"sha512-[A-Za-z0-9+/]{86}==", package["integrity"])
        assert package["version"].partition("-")[0] == TESTED[name]
        assert package["os"] == ["linux"]
        assert not {"resolved", "hasInstallScript", "dependencies"} & set(package)
    assert "://" not in (LOCKED / name / "package-lock.json").read_text()


def test_every_machine_of_the_image_has_its_program() -> None:
    machines = {name: {each["cpu"][0] for key, each in lock(name).items() if key} for name in TESTED}
    assert machines == {"claude": {"arm64", "x64"}, "codex": {"arm64", "x64"}, "opencode": {"x64"}}
