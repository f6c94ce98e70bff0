"""npm itself with ``infra/agents.sh``, against a registry on this machine: hashes are compared, and no script runs."""

import base64
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

pytestmark = pytest.mark.agents

ROOT = Path(__file__).parents[2]
NAME, VERSION = "opencode-linux-any", "1.0.0"


def packed(says: str, stain: Path) -> bytes:
    """A package with a program, and with a script that npm runs where it may."""
    about = {"name": NAME, "version": VERSION, "scripts": {"postinstall": f"touch {stain}"}}
    files = {"package.json": (json.dumps(about), 0o644), "bin/opencode": (f"#!/bin/sh\necho {says}\n", 0o755)}
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for name, (text, mode) in files.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size, member.mode = len(text), mode
            archive.addfile(member, io.BytesIO(text.encode()))
    return written.getvalue()


def hash_of(file: bytes) -> str:
    return "sha512-" + base64.b64encode(hashlib.sha512(file).digest()).decode()


class Registry(ThreadingHTTPServer):
    """Has the one package; *file* is what it gives out, and it says that file's own hash."""

    file = b""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        registry = self.server
        assert isinstance(registry, Registry)
        at = f"{registry.url}/{NAME}.tgz"
        about = {"name": NAME, "version": VERSION, "dist": {"tarball": at, "integrity": hash_of(registry.file)}}
        listing = {"name": NAME, "dist-tags": {"latest": VERSION}, "versions": {VERSION: about}}
        body = registry.file if self.path.endswith(".tgz") else json.dumps(listing).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def install(folder: Path, registry: Registry, locked: bytes) -> "subprocess.CompletedProcess[str]":
    """Install opencode of a project whose lock file names *locked*."""
    wanted = folder / "project" / "infra" / "programs" / "opencode"
    wanted.mkdir(parents=True)
    shutil.copy(ROOT / "infra" / "agents.sh", folder / "project" / "infra")
    depends = {"optionalDependencies": {NAME: VERSION}}
    package = {"version": VERSION, "integrity": hash_of(locked), "optional": True, "hasInstallScript": True}
    package["cpu"] = ["x64", "arm64"]
    lock = {"lockfileVersion": 3, "packages": {"": depends, f"node_modules/{NAME}": package}}
    (wanted / "package.json").write_text(json.dumps(depends))
    (wanted / "package-lock.json").write_text(json.dumps(lock))
    return subprocess.run(
        [folder / "project" / "infra" / "agents.sh", folder / "agents", "opencode"],
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "npm_config_registry": registry.url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_file_of_the_lock_file_is_installed_and_its_script_does_not_run(tmp_path, registry):
    registry.file = packed("the locked one", tmp_path / "stain")
    done = install(tmp_path, registry, locked=registry.file)
    assert done.returncode == 0, done.stderr
    said = subprocess.run([tmp_path / "agents/bin/opencode"], capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout == "the locked one\n"
    assert not (tmp_path / "stain").exists()


def test_another_file_of_the_same_version_is_refused(tmp_path, registry):
    registry.file = packed("another one", tmp_path / "stain")
    done = install(tmp_path, registry, locked=packed("the locked one", tmp_path / "stain"))
    assert done.returncode == 1
    assert "it got a file with another hash than infra/programs/opencode/package-lock.json names" in done.stderr
    assert not (tmp_path / "agents" / "opencode").exists()
