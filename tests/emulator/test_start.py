"""What a start imports. Every module costs time until "Ready", and memory in each process that has it."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.processes.fork_client import ForkClient
from tests.emulator.harness import ROOT, copy_project, launch

pytestmark = pytest.mark.e2e

FUNCTIONS = ("ingest", "dispatch", "deliver", "sweep", "recurrence", "api")
# Of libraries that a turn, a command or a rare request needs: where one is wanted, it is imported late.
NOWHERE = {
    *("mcp", "mcp_types", "pydantic_ai", "anthropic", "openai", "moto", "werkzeug", "flask", "boto3", "botocore"),
    *(
        "pydantic_settings",
        "rich",
        "pandas",
        "pyarrow",
        "duckdb",
        "pyspark",
        "httpx",
        "requests",
        "cryptography",
        "jsonschema",
        "watchfiles",
        "configparser",
    ),
}
NOT_IN_FUNCTIONS = NOWHERE | {
    *("aiohttp", "obstore", "typer", "emulator.system", "emulator.platforms"),
    *("importlib.metadata", "logging.config", "pydantic.type_adapter"),
}
NOT_IN_S3 = NOWHERE | {"aiohttp", "asyncio", "pydantic", "http", "email", "emulator.system"}
ENTRIES = """
import json, os, signal, socket, sys

def tell():
    print(json.dumps([name for name, module in sys.modules.items() if module]), flush=True)

def server(options, ready, sockets):
    tell()

def serve(options, ready, sockets):
    from infra.runner.serve import serve
    def on_ready():
        tell()
        os.kill(os.getpid(), signal.SIGTERM)
    return serve(options["name"], sock=socket.socket(fileno=sockets[0]), timeout_ms=60_000, on_ready=on_ready)
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The modules of the fork server, and of each function when it is ready."""
    place = tmp_path_factory.mktemp("loaded")
    (place / "loaded.py").write_text(ENTRIES)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(place)}
    of_functions = environment | {"POSTROOM_DB": str(place / "postroom.db"), "POSTROOM_RUN_DIR": str(place)}
    found: dict[str, set[str]] = {}

    def keep(name: str, line: str) -> None:
        if line.startswith("["):
            found[name] = set(json.loads(line))

    async def run() -> None:
        client = ForkClient(ROOT, environment, print)
        client.start()
        try:
            await client.wait_loaded()
            for name in ("server", *FUNCTIONS):
                entry = "loaded:server" if name == "server" else "loaded:serve"
                with socket.create_server(("127.0.0.1", 0)) as sock:
                    fork = client.fork(
                        name, entry, {"name": name}, of_functions,
                        on_line=lambda line, _, name=name: keep(name, line), sockets=[sock],
                    )  # fmt: skip
                    assert await fork.wait_ended(60) == 0
        finally:
            await client.stop()

    asyncio.run(run())
    return found


def refused(modules: set[str], unwanted: set[str]) -> set[str]:
    """The modules that are unwanted, or lie in an unwanted package."""
    return {name for name in modules for each in unwanted if name == each or name.startswith(f"{each}.")}


@pytest.mark.parametrize("name", ["server", *FUNCTIONS])
def test_the_fork_server_and_each_function_load_what_they_use(loaded: dict[str, set[str]], name: str) -> None:
    assert refused(loaded[name], NOT_IN_FUNCTIONS) == set()
    assert len(loaded[name]) <= 1050


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_finds_its_modules_loaded(loaded: dict[str, set[str]], name: str) -> None:
    """What it loads itself takes time at each of its starts, and memory that it shares with no other."""
    own = {each for each in loaded[name] - loaded["server"] if each.partition(".")[0] != "functions"}
    assert len(own) <= 5, sorted(own)


def test_the_emulator_s_own_process_loads_what_a_start_needs(tmp_path: Path) -> None:
    running = launch(copy_project(tmp_path / "project"), "--log", "json", "--no-watch", python=("-X", "importtime"))
    try:
        running.wait_ready()
        modules = imported(running.output.read_text())
        libraries = Path(f"/proc/{running.process.pid}/maps").read_text()
    finally:
        running.stop()
    assert refused(modules, NOWHERE | {"starlette", "uvicorn", "shared.core.settings"}) == set()
    assert len(modules) <= 790  # 775 on a quiet machine: on a full one more take a tenth of a millisecond
    assert "apsw" in libraries
    assert "pydantic_core" not in libraries, "another process reads the options, and ends"


def test_s3_loads_almost_nothing(tmp_path: Path) -> None:
    argv = (sys.executable, "-X", "importtime", "-m", "emulator.storage.s3_server", "--dir", str(tmp_path))
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "s3.ready"
        process.terminate()
        modules = imported(process.communicate()[1])
    assert refused(modules, NOT_IN_S3) == set()
    assert len(modules) <= 145  # 135 on a quiet machine: on a full one more take a tenth of a millisecond


def imported(text: str) -> set[str]:
    """The modules that ``-X importtime`` wrote; what took less than 0.1 ms may have been looked for in vain."""
    return set(re.findall(r"^import time: +\d+ \| +\d{3,} \| +(\S+)$", text, re.MULTILINE))
