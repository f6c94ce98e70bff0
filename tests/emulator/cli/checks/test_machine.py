"""The doctor's checks of a machine."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.cli.checks import machine


def test_a_port_in_use_is_told_with_its_user_and_with_the_next_free_one():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        found = machine.port(number)
    assert found.level == "warning"
    assert found.says.startswith(f"{number} is in use by ")
    assert (found.mend or "").startswith("emulator run --port ")


def test_a_folder_that_is_still_to_be_made_is_judged_by_the_one_above(tmp_path: Path):
    found = machine.disk(tmp_path / "not" / "yet")
    assert found.says.endswith(f"at {tmp_path}")


def test_a_leash_that_is_off_is_told_in_plain_words_with_what_mends_it():
    found = machine.leash("off")
    assert (found.level, found.mend) == ("warning", "unset POSTROOM_LEASH")
    assert "Postroom's database, your tokens, the folders of other agents" in found.says


@pytest.mark.parametrize(("said", "level"), [("21.0.5", "ok"), ("11.0.2", "problem"), (None, "problem")])
def test_spark_needs_java_17(tmp_path: Path, said: str | None, level: str):
    if said is not None:
        java = tmp_path / "java"
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{said}\"' >&2\n")
        java.chmod(0o755)
    found = machine.java({"PATH": str(tmp_path)})
    has_spark = (
        subprocess.run([sys.executable, "-c", "import pyspark"], check=False, capture_output=True).returncode == 0
    )
    assert found.level == (level if has_spark else "ok")


@pytest.mark.parametrize(
    ("said", "level", "word"),
    [("v22.1.0", "ok", "v22.1.0"), ("v20.20.2", "warning", "older than 22"), (None, "ok", "22 or newer")],
)
def test_npm_needs_node_22_to_install_claude_code(tmp_path: Path, said: str | None, level: str, word: str):
    if said is not None:
        node = tmp_path / "node"
        node.write_text(f"#!/bin/sh\necho {said}\n")
        node.chmod(0o755)
    found = machine.node({"PATH": str(tmp_path)})
    assert found.level == level
    assert word in found.says
