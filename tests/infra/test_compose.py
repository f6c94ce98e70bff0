"""infra/compose.yaml: what Compose accepts, and the same programs as in template.yaml."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from infra import ticker
from infra.litestream.standby import program as standby
from infra.runner import serve
from infra.template import deployment

ROOT = Path(__file__).parents[2]
FILE = ROOT / "infra" / "compose.yaml"
TEMPLATE = deployment.load(ROOT / "template.yaml")
SERVICES = yaml.safe_load(FILE.read_text())["services"]


def words_of(name, module):
    """The options of a service's program, which must be this module."""
    python, option, found, *words = SERVICES[name]["command"]
    assert (python, option, found) == ("python", "-m", module)
    return words


def test_compose_accepts_the_file():
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(FILE)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    compose = ["docker", "compose", "--file", str(FILE)]
    if (
        shutil.which("docker")
        and not subprocess.run([*compose[:2], "version"], capture_output=True, check=False).returncode
    ):
        subprocess.run([*compose, "config", "--no-env-resolution", "--quiet"], check=True)


@pytest.mark.parametrize("spec", TEMPLATE.functions, ids=lambda spec: spec.name)
def test_each_function_of_the_template_is_a_service_with_its_port_and_its_time_limit(spec):
    options = serve._parse(words_of(spec.name, "infra.runner"))
    assert (options.name, options.port, options.timeout) == (spec.name, spec.port, spec.timeout_ms)
    assert options.standby, "it waits until host has the lease"


def test_no_other_service_is_there_and_the_ticks_are_those_of_the_template():
    assert set(SERVICES) == {"host", "ticker", *(spec.name for spec in TEMPLATE.functions)}
    assert standby.parse(words_of("host", "infra.standby"))
    ticks = [ticker.parse_tick(word) for word in words_of("ticker", "infra.ticker")]
    assert [(each.function, each.every_ms) for each in TEMPLATE.ticks] == [
        (each.function, each.every_ms) for each in ticks
    ]


def test_no_log_fills_the_disk():
    for service in SERVICES.values():
        assert service["logging"] == {"driver": "json-file", "options": {"max-size": "20m", "max-file": "5"}}


def test_all_share_the_loopback_the_files_and_the_end_of_host():
    for name, service in SERVICES.items():
        assert service["volumes"] == ["data:/data"]
        assert service["environment"]["POSTROOM_DB"] == "/data/postroom.db"
        if name != "host":
            assert service["network_mode"] == "service:host"
            assert service["depends_on"]["host"]["restart"] is True
