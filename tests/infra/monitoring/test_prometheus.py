"""Prometheus's own programs take the alert rules, each query of the dashboard, and what is printed."""

import json
import re
from typing import NamedTuple

import pytest

from shared.db.views.monitoring.depths import Depth
from shared.rest.metrics import exposition
from shared.rest.metrics.families import Places, families
from tests.clients.harness import installed, printed, read_by
from tests.infra.monitoring.test_files import ALERTS, EXPRESSIONS, FACTS, FOLDER, PRINTED
from tests.shared.rest.metrics import reader

pytestmark = pytest.mark.clients

RULES = FOLDER / "alerts.yaml"


class Case(NamedTuple):
    """An alert that is not there at first, fires at *fires* and is over at *over*: numbers of values.

    *series*: values, one each *every* minutes, as promtool has them: ``1+0x4`` is a 1 five times.
    """

    series: dict[str, str]
    fires: int
    over: int
    summary: str
    labels: dict[str, str] = {}  # noqa: RUF012 - of a tuple, and never changed
    every: int = 1


AGENT, CHANNEL = {"agent": "coder"}, {"channel": "telegram"}
MONTH = {"agent": "coder", "period": "month"}
DISK = "postroom_disk_{}_bytes"
CASES = {
    "PostroomDown": Case(
        {'up{job="postroom"}': "1 0+0x5 1+0x9"}, 4, 8, "Postroom can't be asked for its metrics", {"job": "postroom"}
    ),
    "PostroomFunctionDown": Case(
        {'postroom_function_up{function="deliver"}': "1 0+0x5 1+0x9"}, 3, 8, "deliver does not run",
        {"function": "deliver"},
    ),
    "PostroomSweepOverdue": Case(
        {"postroom_last_sweep_timestamp_seconds": "0+0x8 540+60x9"}, 8, 9, "No sweep for five minutes"
    ),
    "PostroomMessagesWaiting": Case(
        {'postroom_message_oldest_age_seconds{agent="coder",state="due"}': "0+60x15 0+0x9"}, 12, 17,
        "A message to coder has been due for 12m 0s", AGENT,
    ),
    "PostroomTurnLong": Case(
        {'postroom_message_oldest_age_seconds{agent="coder",state="running"}': "7200+60x10 0+0x9"}, 7, 12,
        "coder has worked at a message for 2h 7m 0s", AGENT,
    ),
    "PostroomTasksLate": Case(
        {'postroom_tasks{state="due"}': "0 2+0x35 0+0x9"}, 32, 38,
        "Tasks that have been due for half an hour: 2",
        {"state": "due"},
    ),
    "PostroomMessagesDead": Case(
        {'postroom_messages_dead_total{agent="coder"}': "0+0x4 1+0x30"}, 6, 25, "Messages to coder were given up", AGENT
    ),
    "PostroomManyRetries": Case(
        {
            'postroom_message_retries_total{agent="coder"}': "0+1x20 20+0x40",
            'postroom_turns_begun_total{agent="coder"}': "0+1x60",
        },
        19, 45, "More than half of the turns of coder fail", AGENT,
    ),
    "PostroomAgentPaused": Case(
        {'postroom_agent_paused{agent="coder"}': "0 1+0x15 0+0x9"}, 12, 18, "Agent coder is paused", AGENT
    ),
    "PostroomApprovalsWaiting": Case(
        {"postroom_approvals_pending": "0 3+0x65 0+0x9"}, 62, 68,
        "Requests that have waited an hour for a yes or no: 3",
    ),
    "PostroomResponsesWaiting": Case(
        {'postroom_response_oldest_age_seconds{channel="telegram",state="sending"}': "0+60x15 0+0x9"}, 12, 17,
        "An answer on telegram has waited for 12m 0s", CHANNEL,
    ),
    "PostroomChannelDeaf": Case(
        {'postroom_channel_deaf{channel="telegram"}': "0 1+0x9 0+0x9"}, 7, 12, "telegram sends us no events", CHANNEL
    ),
    "PostroomChannelPaused": Case(
        {'postroom_channel_paused{channel="telegram"}': "0 1+0x4 0+0x9"}, 2, 7, "telegram refuses our token", CHANNEL
    ),
    "PostroomChannelOutage": Case(
        {'postroom_channel_outage{channel="telegram"}': "0 1+0x20 0+0x9"}, 17, 23, "telegram can't be reached", CHANNEL
    ),
    "PostroomResponsesDead": Case(
        {'postroom_responses_dead_total{channel="telegram"}': "0+0x4 2+0x30"}, 6, 25,
        "Answers on telegram could not be sent", CHANNEL,
    ),
    "PostroomOutcomeUnknown": Case(
        {'postroom_responses_outcome_unknown_total{channel="telegram"}': "0+0x4 1+0x30"}, 6, 25,
        "Nobody knows whether an answer on telegram arrived", CHANNEL,
    ),
    "PostroomBudgetNearlyUsedUp": Case(
        {
            'postroom_budget_left_dollars{agent="coder",period="month"}': "10 0.5+0x4 10+0x9",
            'postroom_budget_limit_dollars{agent="coder",period="month"}': "10+0x20",
        },
        2, 7, "Less than a tenth is left of the budget of coder for this month", MONTH,
    ),
    "PostroomBudgetUsedUp": Case(
        {'postroom_budget_left_tokens{agent="coder",period="month"}': "10 -5+0x4 10+0x9"}, 2, 7,
        "The budget of coder for this month is used up", MONTH,
    ),
    "PostroomReplicaDown": Case({"postroom_replica_up": "1 0+0x5 1+0x9"}, 4, 8, "Litestream does not answer"),
    "PostroomReplicaBehind": Case(
        {"postroom_replica_lag_seconds": "0+60x10 0+0x9"}, 8, 12, "The replica is 8m 0s behind"
    ),
    "PostroomRestoreUnproven": Case(
        {"postroom_replica_proven_restore_timestamp_seconds": "0+0x50 183600+0x9"}, 50, 52,
        "No restore was proven for two days", every=60,
    ),
    "PostroomRestoreNeverProven": Case(
        {
            "postroom_replica_up": "1+0x60",
            "postroom_replica_proven_restore_timestamp_seconds": "_x50 180000+0x9",
        },
        49, 52, "No restore was ever proven", every=60,
    ),
    "PostroomDiskFilling": Case(
        {DISK.format("free"): "50 5+0x20 50+0x9", DISK.format("used"): "50 95+0x20 50+0x9"}, 12, 23,
        "The disk of the database is filling",
    ),
    "PostroomWalLong": Case(
        {"postroom_wal_size_bytes": "0 300000000+0x20 0+0x9"}, 12, 23, "The write-ahead log stays long"
    ),
}  # fmt: skip


def promtool(*arguments, given=None):
    return printed(installed("prometheus", "promtool"), *arguments, given=given)


def check(folder, series, *whens, every=1):
    """Let promtool evaluate the rules over *series*. *whens*: an alert, a minute, and what is fired then."""
    test = {
        "interval": f"{every}m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": fired} for alert, minute, fired in whens
        ],
    }
    file = folder / "tests.json"  # which is YAML too
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": f"{every}m", "tests": [test]}))
    promtool("test", "rules", file)


def expected(alert, case):
    """The alert as Prometheus has it while it fires."""
    (rule,) = (each for each in ALERTS if each["alert"] == alert)
    said = {
        name: re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: case.labels[found[1]], text)
        for name, text in rule["annotations"].items()
    }
    return {"exp_labels": {**rule["labels"], **case.labels}, "exp_annotations": {**said, "summary": case.summary}}


def test_prometheus_loads_the_rules():
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)


@pytest.mark.parametrize(("alert", "case"), CASES.items(), ids=CASES)
def test_an_alert_fires_and_ends(tmp_path, alert, case):
    whens = ((0, []), (case.fires, [expected(alert, case)]), (case.over, []))
    check(tmp_path, case.series, *((alert, at * case.every, fired) for at, fired in whens), every=case.every)


# What looks like trouble and is none: values of each minute, and the one at which that is over.
QUIET = {
    "a disk that is written to after the start": (
        "PostroomDiskFilling", {DISK.format("free"): "39-0.5x30", DISK.format("used"): "61+0.5x30"}, 30
    ),
    "a budget that is used up is not nearly so": (
        "PostroomBudgetNearlyUsedUp",
        {
            'postroom_budget_left_dollars{agent="coder",period="month"}': "0+0x30",
            'postroom_budget_limit_dollars{agent="coder",period="month"}': "10+0x30",
        }, 30,
    ),
    "an agent that waits for money": (
        "PostroomAgentPaused",
        {
            'postroom_agent_paused{agent="coder"}': "1+0x30",
            'postroom_budget_left_tokens{agent="coder",period="month"}': "-5+0x30",
        }, 30,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("alert", "series", "minute"), QUIET.values(), ids=QUIET)
def test_an_alert_does_not_fire_without_need(tmp_path, alert, series, minute):
    check(tmp_path, series, (alert, minute, []))


def test_a_disk_that_will_be_full_tomorrow_is_told_today_and_one_large_file_is_not(tmp_path):
    alert, at = "PostroomDiskFilling", 8 * 60
    fills = {DISK.format("free"): "39-2x9", DISK.format("used"): "61+2x9"}
    case = Case(fills, 0, 0, "The disk of the database is filling")
    check(tmp_path, fills, (alert, at, [expected(alert, case)]), every=60)
    once = {DISK.format("free"): "90+0x6 60+0x6", DISK.format("used"): "10+0x6 40+0x6"}
    check(tmp_path, once, *((alert, hour * 60, []) for hour in range(13)), every=60)


def test_each_alert_has_a_case():
    assert CASES.keys() == {rule["alert"] for rule in ALERTS}


def _well():
    """Every series that is printed, with the values of two days without trouble."""
    facts = FACTS._replace(
        paused_agents=set(), deaf=set(), paused=set(), out=set(), messages=[Depth("name", "due", 1, 9)], responses=[],
        tasks=dict.fromkeys(FACTS.tasks, 0), approvals=0, places=Places(50, 50, 1, 1),
    )  # fmt: skip
    found = {'up{job="postroom"}': "1+0x48"}
    for (name, labels), value in reader.read(exposition.text(families(facts), is_open_metrics=False)).values.items():
        named = ",".join(f'{label}="{each}"' for label, each in labels)
        found[f"{name}{{{named}}}"] = "0+3600x48" if name.endswith("_timestamp_seconds") else f"{value}+0x48"
    return found


def test_nothing_fires_where_all_is_well(tmp_path):
    check(tmp_path, _well(), *((alert, 47 * 60, []) for alert in CASES), every=60)


def test_prometheus_takes_each_query_of_the_dashboard(tmp_path):
    """As rules, with the choices that Grafana puts in."""
    names = [name for name in EXPRESSIONS if name.startswith("panel ")]
    queries = [
        EXPRESSIONS[name].replace("$__rate_interval", "1m").replace("$agent", ".*").replace("$channel", ".*")
        for name in names
    ]
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "queries.json"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(names)} rules found" in promtool("check", "rules", file)


def test_prometheus_finds_no_fault_in_what_is_printed():
    printed = exposition.text(families(FACTS), is_open_metrics=False)
    assert promtool("check", "metrics", given=printed) == ""


def test_prometheus_reads_open_metrics_by_its_strict_reader():
    """A name that can only stand there escaped, too."""
    facts = FACTS._replace(agents=['a "quoted" \\ name\n'])
    read = read_by("metrics_reader.py", exposition.text(families(facts), is_open_metrics=True))
    kinds = {name.removesuffix("_total"): kind for name, kind in PRINTED.kinds.items()}
    assert read == kinds
