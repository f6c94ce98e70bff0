"""The units of infra/systemd, and the same programs from the image: systemd and the programs understand every line."""

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra import ticker
from infra.litestream.standby import program as standby
from infra.runner import serve
from infra.template import deployment
from tests.infra.processes import ROOT

UNITS = ROOT / "infra" / "systemd"
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
PYTHON = "/opt/postroom/.venv/bin/python"
TEMPLATE = deployment.load(ROOT / "template.yaml")
TICKS = {f"{tick.function}={tick.every_ms // 1000}s" for tick in TEMPLATE.ticks}
PARSERS = {
    "infra.standby": standby.parse,
    "infra.runner": serve._parse,
    "infra.ticker": lambda words: [ticker.parse_tick(word) for word in words],
}
ARGUMENTS = dict(re.findall(r"^# /etc/postroom/(\w+)\.env$\nARGUMENTS=(.+)$", OPERATIONS, re.MULTILINE))
DOCUMENTED = re.findall(r"^ExecStart=(/usr/bin/docker .+)$", OPERATIONS, re.MULTILINE)


def started_by(unit):
    """The command of a unit, in words."""
    (line,) = re.findall(r"^ExecStart=(.+)$", unit, re.MULTILINE)
    return shlex.split(line)


def parse(words):
    """Have the module parse its options, which stand after ``-m``."""
    at = words.index("-m")
    module = words[at + 1]
    assert importlib.util.find_spec(module) is not None
    return PARSERS[module](words[at + 2 :])


def filled(words, name):
    """The words of a function's unit, as systemd fills them."""
    found = [each.replace("%i", name) for each in words]
    at = found.index("$ARGUMENTS")
    return [*found[:at], *ARGUMENTS[name].split(), *found[at + 1 :]]


@pytest.mark.parametrize("name", ["postroom-host", "postroom-ticker"])
def test_what_a_unit_starts_is_a_program_with_options_that_it_knows(name):
    words = started_by((UNITS / f"{name}.service").read_text())

    assert words[:2] == [PYTHON, "-m"]
    assert parse(words)


@pytest.mark.parametrize("name", [each.name for each in TEMPLATE.functions])
def test_each_function_of_the_template_has_a_unit_with_its_port_and_its_time_limit(name):
    spec = next(each for each in TEMPLATE.functions if each.name == name)
    for words in (started_by((UNITS / "postroom-function@.service").read_text()), shlex.split(DOCUMENTED[1])):
        options = parse(filled(words, name))

        assert (options.name, options.standby) == (name, True)
        assert (options.port, options.timeout) == (spec.port, spec.timeout_ms)


def test_the_ticks_are_those_of_the_template():
    ports = {each.name: each.port for each in TEMPLATE.functions}
    for words in (started_by((UNITS / "postroom-ticker.service").read_text()), shlex.split(DOCUMENTED[2])):
        ticks = parse(words)

        assert {f"{tick.function}={tick.every_ms // 1000}s" for tick in ticks} == TICKS
        assert {tick.url for tick in ticks} == {f"http://127.0.0.1:{ports[tick.function]}/tick" for tick in ticks}


def test_the_image_is_started_with_what_the_units_start():
    for words, unit in zip(DOCUMENTED, ("postroom-host", "postroom-function@", "postroom-ticker"), strict=True):
        words = shlex.split(words)
        plain = started_by((UNITS / f"{unit}.service").read_text())
        assert words[words.index("python") + 1 :] == plain[1:]
        assert words[1] == "run"
        assert {"--rm", "--init", "--network=host"} <= set(words), "one loopback, and PID 1 that reaps"
        assert "--env-file=/etc/postroom/host.env" in words


def test_systemd_understands_every_line(tmp_path):
    """What systemd-analyze says, with this Python in the place of the installed one; without the program, the names."""
    for unit in UNITS.glob("*.service"):
        text = unit.read_text().replace(PYTHON, sys.executable).replace("/opt/postroom", str(ROOT))
        (tmp_path / unit.name).write_text(text)
    names = ["postroom-host.service", "postroom-ticker.service"]
    names += [f"postroom-function@{each.name}.service" for each in TEMPLATE.functions]
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        assert unknown_settings(tmp_path) == set()
        return
    for name in names:
        if "@" in name:
            (tmp_path / name).symlink_to(tmp_path / "postroom-function@.service")
    said = subprocess.run(
        [analyze, "verify", "--man=no", *names],
        cwd=tmp_path, env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    ours = [line for line in said.stderr.splitlines() if "postroom" in line]
    assert (ours, unknown_settings(tmp_path)) == ([], set())


NAMES = ["postroom-host", "postroom-ticker", *(f"postroom-function@{each.name}" for each in TEMPLATE.functions)]


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_may_do_little_beside_its_work(tmp_path, name):
    """What systemd-analyze says of its exposure, 0 to 10. Without the program: that each unit has the same settings."""
    kept = (UNITS / "postroom-host.service").read_text()
    limits = set(re.findall(r"^((?:Protect|Private|Restrict|SystemCall|Capability|NoNew)\w*=.*)$", kept, re.MULTILINE))
    assert len(limits) > 15
    unit = (UNITS / f"{name.partition('@')[0]}{'@' if '@' in name else ''}.service").read_text()
    assert limits <= set(unit.splitlines())
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    text = re.sub(r"^ExecStart=.*$", "ExecStart=/bin/true", unit, flags=re.MULTILINE)
    (tmp_path / f"{name}.service").write_text(text)
    own = UNITS / f"{name}.service.d"
    if own.is_dir():
        shutil.copytree(own, tmp_path / own.name)
    words = [analyze, "security", "--offline=true", "--no-pager", str(tmp_path / f"{name}.service")]
    said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    assert float(re.search(r"exposure level for .*: ([0-9.]+)", said)[1]) < 3


def test_systemd_asks_for_signs_where_the_main_process_gives_them():
    """Docker's client, which starts a container, gives none."""
    for unit in UNITS.glob("*.service"):
        assert {"WatchdogSec=2min", "NotifyAccess=main"} <= set(unit.read_text().splitlines())
    assert len(re.findall(r"^WatchdogSec=0\nExecStart=\nExecStart=/usr/bin/docker run ", OPERATIONS, re.MULTILINE)) == 3


def test_the_unit_of_dispatch_has_what_bubblewrap_needs():
    """A filter that lets it mount, namespaces, and a whole /proc; and no program starts without its leash."""
    own = (UNITS / "postroom-function@dispatch.service.d" / "leash.conf").read_text().splitlines()
    assert {"SystemCallFilter=@mount", "RestrictNamespaces=user mnt pid net ipc uts", "ProtectProc=default"} <= set(own)
    assert "Environment=POSTROOM_LEASH=required" in (UNITS / "postroom-function@.service").read_text().splitlines()


KNOWN = {
    *("Description", "Wants", "After", "BindsTo", "StartLimitIntervalSec"),
    *("User", "WorkingDirectory", "EnvironmentFile", "ExecStart", "Restart", "RestartSec", "TimeoutStopSec"),
    *("WatchdogSec", "NotifyAccess", "LimitCORE"),
    *("KillMode", "WantedBy", "Environment", "UMask", "RemoveIPC", "LockPersonality"),
    *("NoNewPrivileges", "CapabilityBoundingSet", "AmbientCapabilities", "StateDirectory", "StateDirectoryMode"),
    *("RuntimeDirectory", "RuntimeDirectoryMode", "ReadWritePaths"),
    *("ProtectSystem", "ProtectHome", "ProtectClock", "ProtectHostname", "ProtectProc", "ProtectControlGroups"),
    *("ProtectKernelModules", "ProtectKernelTunables", "ProtectKernelLogs", "ProcSubset"),
    *("PrivateMounts", "PrivateTmp", "PrivateDevices"),
    *("RestrictNamespaces", "RestrictAddressFamilies", "RestrictRealtime", "RestrictSUIDSGID"),
    *("SystemCallArchitectures", "SystemCallFilter", "SystemCallErrorNumber"),
}


def unknown_settings(folder: Path) -> set[str]:
    lines = "\n".join(unit.read_text() for unit in folder.glob("*.service"))
    return set(re.findall(r"^(\w+)=", lines, re.MULTILINE)) - KNOWN
