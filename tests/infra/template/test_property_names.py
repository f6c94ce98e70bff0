"""Names that CloudFormation or Postroom does not know are told, with the nearest that it knows."""

import re

import pytest

from infra.template import property_names
from infra.template.cloudformation import TemplateInvalid
from infra.template.deployment import load
from shared.core.settings import known_variables
from tests.infra.template.planted import ROOT, line_of, planted, problems_of

MISTAKES = [
    pytest.param(
        ("- Name: ticker\n          Image:", "- Name: ticker\n          Imag:"),
        "Imag:",
        "container 'ticker' has no property 'Imag'; did you mean 'Image'?",
        id="misspelt property of a container",
    ),
    pytest.param(
        (
            "{SourceVolume: tmp, ContainerPath: /tmp}]\n          StopTimeout: 60",
            "{SourceVolum: tmp, ContainerPath: /tmp}]\n          StopTimeout: 60",
        ),
        "SourceVolum:",
        "MountPoints of container 'litestream' has no property 'SourceVolum'; did you mean 'SourceVolume'?",
        id="misspelt property in a container",
    ),
    pytest.param(
        ("Port: 3777\n      HealthCheckPath", "Port: 3777\n      HealthCheckPat"),
        "HealthCheckPat:",
        "ApiTarget has no property 'HealthCheckPat'; did you mean 'HealthCheckPath'?",
        id="misspelt property of a target group",
    ),
    pytest.param(
        ("Port: 3777\n      HealthCheckPath: /healthz", "Port: 3777\n      HealthCheckPath: healthz"),
        'healthz\n      TargetGroupAttributes: [{Key: deregistration_delay.timeout_seconds, Value: "5"}]\n\n'
        "  WebhookRoute",
        "HealthCheckPath 'healthz' of ApiTarget should begin with a slash",
        id="health check without its slash",
    ),
    pytest.param(
        ("Values: [/webhooks/*]", "Values: [webhooks/*]"),
        "webhooks/*]",
        "the path 'webhooks/*' of WebhookRoute should begin with a slash: no request matches it",
        id="path without its slash",
    ),
]


@pytest.mark.parametrize(("change", "place", "message"), MISTAKES)
def test_a_misspelt_name_is_one_problem_at_its_place(tmp_path, change, place, message):
    text = planted(change)
    (problem,) = problems_of(tmp_path, text)
    assert ((problem.line, problem.column), problem.message) == (line_of(place, text), message)


def test_a_variable_of_ours_that_nothing_reads_is_a_problem_at_its_place(tmp_path):
    text = planted(("      POSTROOM_NEW_CHATS: wire", "      POSTROOM_NEW_CHAT: wire"))
    sender, chat = "POSTROOM_SENDER_LIMIT, Value: !Ref SenderLimit", "POSTROOM_NEW_CHAT: wire"
    text = text.replace(sender, sender.replace("LIMIT", "LIMT"), 1)
    path = tmp_path / "template.yaml"
    path.write_text(text)
    with pytest.raises(TemplateInvalid) as caught:
        load(path, variables=property_names.OF_INFRA | known_variables())
    found = [(each.line, each.column, each.message) for each in caught.value.problems]
    assert found == [
        (*line_of(chat, text), "nothing reads the variable POSTROOM_NEW_CHAT; did you mean 'POSTROOM_NEW_CHATS'?"),
        (
            *line_of("POSTROOM_SENDER_LIMT", text),
            "nothing reads the variable POSTROOM_SENDER_LIMT; did you mean 'POSTROOM_SENDER_LIMIT'?",
        ),
    ]


def test_each_variable_of_ours_that_infra_reads_is_known():
    sources = [path.read_text() for path in (ROOT / "infra").rglob("*.py")]
    read = {name for source in sources for name in re.findall(r"""["'](POSTROOM_[A-Z_]+)["']""", source)}
    assert len(read) > 8
    assert read <= property_names.OF_INFRA | known_variables()
