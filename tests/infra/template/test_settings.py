"""Each function has the settings that its code reads."""

import re

import pytest
from cfnlint.decode import decode_str

from infra.template.deployment import load
from shared.core.settings import Settings
from tests.import_graph import graph_of, reachable
from tests.infra.processes import ROOT

TEMPLATE = ROOT / "template.yaml"


@pytest.fixture(scope="module")
def modules():
    """The files of what each function imports, by the function's name."""
    graph = graph_of(ROOT, ["functions", "shared"])
    names = [each.name for each in load(TEMPLATE, root=ROOT).functions]
    reached = {name: reachable(graph, f"functions.{name}") | {f"functions.{name}"} for name in names}
    return {
        name: [ROOT.joinpath(*each.split(".")).with_suffix(".py") for each in found] for name, found in reached.items()
    }


@pytest.mark.parametrize(
    ("setting", "readers"),
    [("timezone", {"dispatch", "sweep", "api"}), ("alert_url", {"sweep", "api"}), ("alert_secret", {"sweep", "api"})],
)
def test_each_function_that_reads_a_setting_is_given_it(modules, setting, readers):
    read = re.compile(rf"settings\.{setting}\b")
    found = {
        name for name, files in modules.items() if any(read.search(file.read_text()) for file in files if file.exists())
    }
    assert found >= readers
    given = {
        each.name
        for each in load(TEMPLATE, root=ROOT).functions
        if f"POSTROOM_{setting.upper()}" in {*each.environment, *each.secrets}
    }
    assert given >= found


def test_the_secret_of_alerts_is_there_before_anybody_has_a_webhook(monkeypatch):
    made = decode_str(TEMPLATE.read_text())[0]["Resources"]["AlertWebhook"]["Properties"]["GenerateSecretString"]
    assert made["SecretStringTemplate"] == '{"POSTROOM_ALERT_URL": ""}'
    monkeypatch.setenv("POSTROOM_ALERT_URL", "")
    monkeypatch.setenv(made["GenerateStringKey"], ("aB3" * made["PasswordLength"])[: made["PasswordLength"]])
    settings = Settings.load()
    assert (settings.alert_url, settings.alert_secret is None) == (None, False)
