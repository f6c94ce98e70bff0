"""What pip installed against the constraints, by the report that pip writes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from infra import pinned
from tests.infra.processes import ROOT

CONSTRAINTS = "# names\nFlask==3.1.3\nast_serialize==0.13.1\n"


def report(*libraries: tuple[str, str], **more: Any) -> str:
    """As pip writes it, of libraries that it fetched."""
    install = [
        {"download_info": {"archive_info": {}} | more, "metadata": {"name": name, "version": version}}
        for name, version in libraries
    ]
    return json.dumps({"version": "1", "install": install})


def test_what_is_named_in_any_spelling_is_pinned() -> None:
    assert pinned.unpinned(report(("flask", "3.1.3"), ("ast-serialize", "0.13.1")), CONSTRAINTS) == []


def test_another_version_and_another_library_are_not() -> None:
    found = pinned.unpinned(report(("Flask", "3.1.30"), ("evil", "1.0")), CONSTRAINTS)
    assert found == ["Flask==3.1.30", "evil==1.0"]


def test_the_project_itself_needs_no_line() -> None:
    assert pinned.unpinned(report(("postroom", "0.1.0"), dir_info={"editable": True}), CONSTRAINTS) == []


def test_as_a_program_it_fails_and_names_them(tmp_path: Path) -> None:
    (tmp_path / "constraints.txt").write_text(CONSTRAINTS)

    def checked(*libraries: tuple[str, str]) -> "subprocess.CompletedProcess[str]":
        (tmp_path / "report.json").write_text(report(*libraries))
        command = [sys.executable, "-I", ROOT / "infra" / "pinned.py", "report.json"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    assert checked(("flask", "3.1.3")).returncode == 0
    failed = checked(("evil", "1.0"))
    assert failed.returncode == 1
    assert (
        failed.stderr == "pip installed what constraints.txt does not name: evil==1.0. Add it there if you trust it\n"
    )
