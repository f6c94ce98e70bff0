"""``infra/agents.sh`` on machines with and without npm."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WANTED = (ROOT / "tests" / "agents" / "package.json").read_text()
PROGRAMS = ("claude", "codex", "opencode")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The programs of a machine without npm."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("sh", "dirname", "cmp", "cp", "mkdir", "mv", "rm"):
        found = next(each for each in (Path("/usr/bin") / name, Path("/bin") / name) if each.exists())
        (folder / name).symlink_to(found)
    return folder


def install(path: Path, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [path / "sh", ROOT / "infra" / "agents.sh", folder],
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
        "agents: npm is missing, which installs the agents: install Node.js 20 or newer with npm "
        "(Debian: sudo apt-get install nodejs npm), and try again\n"
    )
    assert not (tmp_path / "agents").exists()


def test_programs_that_are_there_already_need_no_npm(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    for name in PROGRAMS:
        write(folder / "node_modules" / ".bin" / name, "exit 0")
    (folder / "package.json").write_text(WANTED)
    done = install(path, folder)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_npm_that_fails_is_told_and_tried_again(path: Path, tmp_path: Path) -> None:
    write(path / "npm", "echo 'npm error network' >&2; exit 1")
    for _ in range(2):
        done = install(path, tmp_path / "agents")
        assert done.returncode == 1
        assert done.stderr.endswith("npm error network\nagents: npm could not install them: its own words are above\n")
    assert not (tmp_path / "agents" / "package.json").exists()
