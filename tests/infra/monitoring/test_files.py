"""The alert rules and the dashboard: each metric and label that they name is printed, and their form is right.

Whether Prometheus takes them: ``test_prometheus.py``.
"""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from shared.db.views.monitoring.depths import Depth
from shared.db.views.monitoring.event_totals import EventTotal
from shared.rest.metrics import exposition
from shared.rest.metrics.families import MetricFacts, Places, ReplicaFacts, families
from tests.shared.rest.metrics import reader

FOLDER = Path(__file__).parents[3] / "infra/monitoring"
PAGE = FOLDER.parents[1] / "shared/rest/desk/page"
RULES = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = {f"alert {rule['alert']}": rule["expr"] for rule in ALERTS} | {
    f"panel {panel['title']} {target['refId']}": target["expr"] for panel in PANELS for target in panel["targets"]
}
OF_SCRAPES = {"up": {"job", "instance"}}  # Prometheus makes it
OF_COUNTERS = {"rate", "increase"}
SELECTOR = re.compile(r"\b(?:(\w+)\(\s*)?\b(postroom_\w+|up)\b(?:\{([^}]*)\})?(\[[^\]]+\])?")


def _facts():
    depths = [Depth("name", state, 1, 1) for state in ("due", "planned", "paused", "retrying", "running", "dead")]
    sends = [Depth("name", state, 1, 1) for state in ("due", "planned", "retrying", "sending", "to_fetch", "dead")]
    budget = {"agent": "name", "period": "day", "amount": 2, "extra": 0, "spent": 1, "unpriced": 0}
    budgets = [{**budget, "unit": unit, "since": 0, "until": 1} for unit in ("money", "tokens")]
    tasks = dict.fromkeys(("due", "planned", "paused", "running"), 1)
    return MetricFacts(
        *(9, ["name"], {"name"}, ["name"], {"name"}, {"name"}, {"name"}, depths, sends, tasks, 1, 1),
        *([EventTotal("message_dead", "name", 1)], budgets, {"dispatch": True}, 1),
        *(Places(1, 1, 1, 1), ReplicaFacts(True, 1.0, 1)),
    )


FACTS = _facts()
PRINTED = reader.read(exposition.text(families(FACTS), is_open_metrics=False))
LABELS = OF_SCRAPES | {
    name: {label for series in PRINTED.series(name) for label in series} for name, _ in PRINTED.values
}


def _metrics(expression):
    return [name for _, name, _, _ in SELECTOR.findall(expression)]


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_an_expression_names_what_is_printed(expression):
    assert _metrics(expression), "it asks for nothing of ours"
    for function, name, matchers, span in SELECTOR.findall(expression):
        assert name in LABELS, f"{name} is not printed"
        for label, operator, value in re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', matchers):
            assert label in LABELS[name], f"{name} has no label {label}"
            if label == "state":
                states = {series["state"] for series in PRINTED.series(name)}
                assert set(value.split("|")) <= states, operator
        is_counter = PRINTED.kinds.get(name) == "counter"
        assert is_counter == (function in OF_COUNTERS), f"{name}: a counter needs a rate, a gauge has none"
        assert bool(span) == (is_counter or function == "predict_linear")
    labels = set().union(*(LABELS[name] for name in _metrics(expression)))
    for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression):
        assert set(filter(None, group.split(", "))) <= labels


DURATION = {"type": "string", "pattern": "^[1-9][0-9]*(s|m|h|d)$"}
SENTENCES = {
    "type": "object",
    "properties": {name: {"type": "string", "minLength": 3} for name in ("summary", "description", "page")},
    "required": ["summary", "description"],
    "additionalProperties": False,
}
RULE = {
    "type": "object",
    "properties": {
        "alert": {"type": "string", "pattern": "^Postroom[A-Za-z]+$"},
        "expr": {"type": "string"},
        "for": DURATION,
        "labels": {
            "type": "object",
            "properties": {"severity": {"enum": ["page", "ticket"]}},
            "required": ["severity"],
            "additionalProperties": False,
        },
        "annotations": SENTENCES,
    },
    "required": ["alert", "expr", "labels", "annotations"],
    "additionalProperties": False,
}
RULE_FILE = {
    "type": "object",
    "properties": {
        "groups": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "rules": {"type": "array", "items": RULE}},
                "required": ["name", "rules"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["groups"],
    "additionalProperties": False,
}
SOURCE = {"type": "object", "properties": {"uid": {"const": "${datasource}"}}, "required": ["type", "uid"]}
PANEL = {
    "type": "object",
    "properties": {
        "type": {"enum": ["stat", "timeseries"]},
        "title": {"type": "string", "minLength": 3},
        "description": {"type": "string", "pattern": r"\.$"},
        "datasource": SOURCE,
        "targets": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {"datasource": SOURCE, "refId": {"type": "string", "pattern": "^[A-Z]$"}},
                "required": ["refId", "expr", "legendFormat", "datasource"],
            },
        },
        "fieldConfig": {
            "type": "object",
            "properties": {"defaults": {"type": "object", "required": ["unit"]}},
            "required": ["defaults", "overrides"],
        },
    },
    "required": ["id", "type", "title", "description", "datasource", "gridPos", "targets", "fieldConfig", "options"],
}


def test_the_rules_have_the_form_of_prometheus():
    jsonschema.Draft202012Validator(RULE_FILE).validate(RULES)
    names = [rule["alert"] for rule in ALERTS]
    assert len(names) == len(set(names)) > 20


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_a_sentence_of_an_alert_names_labels_that_the_expression_keeps(rule):
    kept = [set(group.split(", ")) for group in re.findall(r"\bby \(([^)]*)\)", rule["expr"])]
    labels = set.intersection(*kept) if kept else set.intersection(*(LABELS[each] for each in _metrics(rule["expr"])))
    said = " ".join(rule["annotations"].values())
    assert set(re.findall(r"\$labels\.(\w+)", said)) <= labels
    assert said.count("{{") == said.count("}}")


def test_an_alert_leads_to_a_place_on_the_page():
    known = set(re.findall(r'\["(\w+)", "', "".join(path.read_text() for path in sorted(PAGE.glob("*.js")))))
    places = {rule["annotations"].get("page", "/#/") for rule in ALERTS}
    assert {re.split(r"[/?]", place.removeprefix("/#/"))[0] for place in places} - {""} <= known


def test_the_dashboard_has_the_form_of_grafana():
    needed = {"title", "uid", "schemaVersion", "panels", "templating", "time", "refresh"}
    assert needed <= DASHBOARD.keys()
    for panel in PANELS:
        jsonschema.Draft202012Validator(PANEL).validate(panel)
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references))
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids)) > 20


def test_no_panel_lies_on_another():
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_what_the_dashboard_chooses_by_exists():
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(PANELS))) - {"__rate_interval"}
    assert used == variables.keys()
    for name in ("agent", "channel"):
        metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variables[name]["query"]).groups()
        assert label in LABELS[metric]


def test_each_metric_is_watched_or_shown():
    """A number that nobody looks at is no use: leave it out of the answer, or show it."""
    assert {name for name, _ in PRINTED.values} == {
        name for expression in EXPRESSIONS.values() for name in _metrics(expression)
    } - OF_SCRAPES.keys()
