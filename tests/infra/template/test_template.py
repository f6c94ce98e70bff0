import json
import os
import re
import time
from pathlib import Path

import pytest
from cfnlint.api import ManualArgs, lint
from cfnlint.decode import decode_str

from infra.discord_relay.__main__ import plan
from infra.template.cloudformation import TemplateInvalid
from infra.template.deployment import load
from infra.template.specs import FunctionSpec, RouteSpec, TickSpec
from shared.channels import standard_webhooks
from shared.turns.gateway.upstreams import GatewaySettings, upstreams
from tests.infra.template import stack

ROOT = Path(__file__).parents[3]
TEMPLATE = ROOT / "template.yaml"
TEXT = TEMPLATE.read_text()

DATA = {"POSTROOM_DB": "/data/postroom.db", "POSTROOM_RUN_DIR": "/data/run", "POSTROOM_PUBLIC_URL": ""}
ZONE = {"POSTROOM_TIMEZONE": "UTC"}
AGENTS = {"POSTROOM_AGENTS_DIR": "/data/agents"}
REPLICATED = {"POSTROOM_DURABILITY": "local", "POSTROOM_LITESTREAM_SOCKET": "/data/litestream.sock"}
ASK = {"POSTROOM_NEW_CHATS": "ask"}
WHO = {**ASK, "POSTROOM_SENDER_LIMIT": "120", "POSTROOM_CHAT_LIMIT": "600"}
WHO |= {"POSTROOM_SENDER_BYTES": "104857600"}
WEBHOOKS = DATA | AGENTS | ZONE | WHO | REPLICATED
MODELS = {"POSTROOM_LOCAL_MODELS_URL": "", "POSTROOM_MODEL_PRICES": ""}
BOT = {"TELEGRAM_BOT_USERNAME": "", "DISCORD_THREADS": "0"}
DELIVER = {"TELEGRAM_WEBHOOK_URL": "", "DISCORD_REPLY_BUTTON": "0", "DISCORD_LINK_PREVIEWS": "0"}
OUR_ADDRESSES = {"TELEGRAM_WEBHOOK_URL": "", "DISCORD_WEBHOOK_URL": ""}
LEASH = {"POSTROOM_LEASH": "required"}
TICKED = ("POSTROOM_TICK_SECRET",)
ALERTS = ("POSTROOM_ALERT_URL", "POSTROOM_ALERT_SECRET")
MODEL_KEYS = (
    "POSTROOM_ANTHROPIC_API_KEY",
    "POSTROOM_CLAUDE_CODE_OAUTH_TOKEN",
    "POSTROOM_CLAUDE_CODE_OAUTH_ENDS",
    "POSTROOM_OPENAI_API_KEY",
    "POSTROOM_LOCAL_MODELS_API_KEY",
)
CHANNELS = (
    "TELEGRAM_BOT_TOKEN",
    "TELEGRAM_WEBHOOK_SECRET",
    "DISCORD_PUBLIC_KEY",
    "DISCORD_APPLICATION_ID",
    "DISCORD_BOT_TOKEN",
)


def line_of(fragment, text=TEXT):
    """The (line, column), from 1, of *fragment*, which must occur once."""
    assert text.count(fragment) == 1, f"{fragment!r} stands {text.count(fragment)} times"
    before = text[: text.index(fragment)]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def problems_of(tmp_path, text, root=None):
    path = tmp_path / "template.yaml"
    path.write_text(text)
    with pytest.raises(TemplateInvalid) as caught:
        load(path, root=root)
    return caught.value.problems


def planted(*changes):
    """The real template with each (old, new) replaced; *old* must occur once."""
    text = TEXT
    for old, new in changes:
        line_of(old, text)
        text = text.replace(old, new)
    return text


# -- the real one ------------------------------------------------------------------------------------------------------


def test_the_template_is_read_exactly():
    deployment = load(TEMPLATE, root=ROOT)

    def function(name, port, timeout_ms, environment, secrets):
        return FunctionSpec(name, port, timeout_ms, environment, secrets, line_of(f"- Name: {name}\n")[0])

    assert deployment.functions == (
        function("ingest", 9001, 10_000, WEBHOOKS | BOT, (*CHANNELS, "DISCORD_RELAY_SECRET")),
        function("dispatch", 9002, 10_000, DATA | AGENTS | ZONE | WHO | MODELS | LEASH, TICKED + MODEL_KEYS + CHANNELS),
        function("deliver", 9003, 10_000, DATA | DELIVER | REPLICATED, TICKED + CHANNELS),
        function("sweep", 9004, 50_000, DATA | AGENTS | ZONE | OUR_ADDRESSES, TICKED + ALERTS + CHANNELS),
        function("recurrence", 9005, 50_000, DATA | ZONE, TICKED),
        function("api", 3777, 90_000, DATA | AGENTS | ZONE | ASK | REPLICATED | LEASH, ("POSTROOM_API_TOKEN", *ALERTS)),
    )
    assert deployment.ticks == (
        TickSpec("dispatch", 5000, "/tick", line_of("dispatch=5s@9002")[0]),
        TickSpec("deliver", 1000, "/tick", line_of("deliver=1s@9003")[0]),
        TickSpec("sweep", 60_000, "/tick", line_of("sweep=60s@9004")[0]),
        TickSpec("recurrence", 60_000, "/tick", line_of("recurrence=60s@9005")[0]),
    )
    webhooks, api = line_of("\n  WebhookRoute:")[0] + 1, line_of("\n  ApiRoute:")[0] + 1
    assert deployment.routes == (
        RouteSpec("/webhooks/*", ("GET", "POST"), "ingest", 10, webhooks),
        RouteSpec("/api/*", (), "api", 20, api),
        RouteSpec("/metrics", (), "api", 20, api),
        RouteSpec("/", (), "api", 20, api),
    )
    assert deployment.emulator_environment == {"POSTROOM_NEW_CHATS": "wire", "POSTROOM_LEASH": "auto"}


def test_cfn_lint_finds_no_problem():
    matches = lint(TEXT, config=ManualArgs(regions=["us-east-1", "eu-central-1"]))

    assert [str(match) for match in matches] == []


def test_reading_takes_less_than_40_ms():
    def once():
        begun = time.process_time()
        load(TEMPLATE, root=ROOT)
        return time.process_time() - begun

    assert min(once() for _ in range(5)) < 0.040


def test_the_template_has_no_lambda_and_no_efs():
    assert not re.search(r"AWS::(Lambda|Serverless|EFS)::|EFSVolume", TEXT)


def test_the_secret_of_models_has_each_key_that_dispatch_is_given_and_reads():
    filled = re.search(r"(?s)ModelKeys:\n.*?SecretString: >-\n(.*?)\n\n", TEXT)
    assert filled is not None
    assert json.loads(filled[1]) == dict.fromkeys(MODEL_KEYS, "")
    assert re.findall(r"\$\{ModelKeys\}:(\w+)::", TEXT) == list(MODEL_KEYS)
    assert "!Ref ModelKeys," in TEXT.split("read-secrets")[1].split("TaskRole:")[0]
    assert {f"POSTROOM_{name.upper()}" for name in GatewaySettings.model_fields} >= {*MODEL_KEYS, *MODELS}


def test_settings_of_models_that_are_left_empty_are_not_set(monkeypatch):
    for name in (*MODEL_KEYS, *MODELS):
        monkeypatch.setenv(name, "")
    assert upstreams(GatewaySettings.load()) == {}


def deployed(with_relay):
    """The resources of a stack; *with_relay*: its parameter ``DiscordRelay`` is on."""
    return stack.resources({"WithDiscordRelay"} if with_relay else ())


def secrets_of(resources):
    """The secrets by container; each as ``(variable, where its value is)``."""
    containers = resources["Task"]["Properties"]["ContainerDefinitions"]
    return {each["Name"]: [(one["Name"], one["ValueFrom"]) for one in each.get("Secrets", ())] for each in containers}


def test_the_discord_relay_is_off_unless_it_is_wanted():
    assert decode_str(TEXT)[0]["Parameters"]["DiscordRelay"]["Default"] == "off"
    without, with_relay = deployed(with_relay=False), deployed(with_relay=True)
    assert set(with_relay) - set(without) == {"DiscordRelaySecret"}
    assert "DiscordRelaySecret" not in repr(without)
    assert set(secrets_of(with_relay)) - set(secrets_of(without)) == {"discord_relay"}


def test_a_stack_without_the_relay_reads_no_key_that_its_secret_lacks():
    """A task does not start where a secret lacks a key, and a release does not add keys to a secret that is there."""
    first_release = {*CHANNELS}
    for resources in (deployed(with_relay=False), deployed(with_relay=True)):
        places = repr(secrets_of(resources))
        assert set(re.findall(r"\$\{ChannelSecrets\}:(\w+)::", places)) == first_release


def test_the_relay_has_what_it_needs_and_ends_alone(monkeypatch):
    resources = deployed(with_relay=True)
    (relay,) = (
        each for each in resources["Task"]["Properties"]["ContainerDefinitions"] if each["Name"] == "discord_relay"
    )
    generated = ("DISCORD_RELAY_SECRET", {"Ref": "DiscordRelaySecret"})
    assert generated in secrets_of(resources)["discord_relay"]
    assert generated in secrets_of(resources)["ingest"]
    policies = resources["ExecutionRole"]["Properties"]["Policies"]
    assert {"Ref": "DiscordRelaySecret"} in policies[0]["PolicyDocument"]["Statement"][0]["Resource"]
    assert (relay["Essential"], relay["RestartPolicy"]["IgnoredExitCodes"]) == (False, [0, os.EX_CONFIG])
    length = resources["DiscordRelaySecret"]["Properties"]["GenerateSecretString"]["PasswordLength"]
    for name in [each for each in os.environ if each.startswith("DISCORD_")]:
        monkeypatch.delenv(name)
    values = {"DISCORD_PUBLIC_KEY": "f7" * 32, "DISCORD_APPLICATION_ID": "129", "DISCORD_BOT_TOKEN": "the.token"}
    values["DISCORD_RELAY_SECRET"] = ("aB3" * length)[:length]
    values |= {each["Name"]: each["Value"] for each in relay["Environment"] if isinstance(each["Value"], str)}
    assert set(values) >= {name for name, _ in secrets_of(resources)["discord_relay"]}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    planned = plan("discord")
    assert planned.state == Path("/data/discord_relay.json")
    assert planned.target == "http://127.0.0.1:9001/webhooks/discord"
    signed = standard_webhooks.sign(planned.secret, "one", b"{}", now_ms=0)
    assert standard_webhooks.verify(planned.secret, signed, b"{}", now_ms=0) == "one"


def test_every_container_uses_the_one_disk_and_waits_for_the_restore():
    for container in re.split(r"(?m)^        - Name: (?=\w+$)", TEXT.split("ContainerDefinitions:")[1])[1:]:
        name = container.split("\n", 1)[0]
        if name not in ("ticker",):
            assert "MountPoints: [{SourceVolume: data, ContainerPath: /data}, " in container, name
        if name != "restore":
            assert "{ContainerName: restore, Condition: SUCCESS}" in container, name


# -- one mistake, one sentence, at its place ---------------------------------------------------------------------------

INGEST = '[python, -m, infra.runner, ingest, --port, "9001", --timeout, 10s, --host, 0.0.0.0]'
DISPATCH = '[python, -m, infra.runner, dispatch, --port, "9002", --timeout, 10s]'
BALANCED = "{ContainerName: ingest, ContainerPort: 9001, TargetGroupArn: !Ref WebhookTarget}"
FORM = "[python, -m, infra.runner, NAME, --port, PORT, --timeout, LIMIT]"

MISTAKES = [
    pytest.param(
        (BALANCED, BALANCED.replace("ingest", "ingset")),
        "ingset",
        "unknown container 'ingset' in Service.LoadBalancers; did you mean 'ingest'?",
        id="unknown container behind the load balancer",
    ),
    pytest.param(
        ("DesiredCount: 1", "DesiredCount: 2"),
        "2\n      DeploymentConfiguration",
        "DesiredCount is 2: it should be 1, because SQLite in WAL mode works on one host only",
        id="two tasks",
    ),
    pytest.param(
        ("MaximumPercent: 100", "MaximumPercent: 200"),
        "200, MinimumHealthyPercent",
        "MaximumPercent is 200: it should be 100, because two tasks must not run at once, not even while deploying",
        id="overlapping deployment",
    ),
    pytest.param(
        ("AvailabilityZoneRebalancing: DISABLED", "AvailabilityZoneRebalancing: ENABLED"),
        "ENABLED",
        "AvailabilityZoneRebalancing is ENABLED: it should be DISABLED, because rebalancing starts a second task first",
        id="rebalancing",
    ),
    pytest.param(
        (
            "        - Name: data #",
            "        - Name: data\n          EFSVolumeConfiguration: {FilesystemId: fs-1}\n          #",
        ),
        "EFSVolumeConfiguration",
        "EFSVolumeConfiguration: SQLite in WAL mode does not work over a network file system; use a volume of the "
        "task's own host",
        id="network file system",
    ),
    pytest.param(
        (DISPATCH, "[functions-framework, --target, dispatch]"),
        "[functions-framework",
        f"container 'dispatch' should run a function as {FORM}, or [python, -m, infra.ticker, …], "
        f"[python, -m, infra.replicate], [python, -m, infra.restore, …] or [python, -m, infra.discord_relay]",
        id="another server",
    ),
    pytest.param(
        (DISPATCH, '[python, -m, infra.runner, dispatch, --port, "9002"]'),
        "[python, -m, infra.runner, dispatch",
        f"container 'dispatch' has no --timeout; the Command should be {FORM}",
        id="no timeout",
    ),
    pytest.param(
        (DISPATCH, DISPATCH.replace("--timeout, 10s", "--timeout, 10")),
        "10]\n          DependsOn",
        "--timeout of container 'dispatch': '10' is not a duration; write a whole number and ms, s, m or h, such as "
        "500ms or 10s",
        id="timeout without a unit",
    ),
    pytest.param(
        (DISPATCH, DISPATCH.replace("--timeout", "--timout")),
        "--timout",
        "container 'dispatch': the runner has no option '--timout'; did you mean '--timeout'?",
        id="misspelt option",
    ),
    pytest.param(
        (DISPATCH, DISPATCH.replace('"9002"', '"90021"')),
        '"90021"',
        "--port of container 'dispatch': '90021' is not a port; write a number from 1 to 65535",
        id="no such port",
    ),
    pytest.param(
        ("[python, -m, infra.runner, sweep,", "[python, -m, infra.runner, sweeep,"),
        "sweeep",
        "container 'sweep' runs the function 'sweeep': name them alike",
        id="another function than the container's name",
    ),
    pytest.param(
        ("dispatch=5s@9002", "dispach=5s@9002"),
        "dispach=5s@9002",
        "the ticker calls an unknown function 'dispach'; did you mean 'dispatch'?",
        id="tick of an unknown function",
    ),
    pytest.param(
        ("dispatch=5s@9002", "dispatch=5s@9003"),
        "dispatch=5s@9003",
        f"the ticker calls dispatch on port 9003, but it listens on 9002 (line {line_of('- Name: dispatch')[0]})",
        id="tick of another port",
    ),
    pytest.param(
        ("dispatch=5s@9002", "dispatch=5x@9002"),
        "dispatch=5x@9002",
        "the interval of 'dispatch=5x@9002': '5x' is not a duration; write a whole number and ms, s, m or h, such as "
        "500ms or 10s",
        id="bad interval",
    ),
    pytest.param(
        ("deliver=1s@9003", "dispatch=1s@9002"),
        "dispatch=1s@9002",
        "'dispatch' is ticked twice",
        id="ticked twice",
    ),
    pytest.param(
        ("        - {ContainerName: api, ContainerPort: 3777, TargetGroupArn: !Ref ApiTarget}\n", ""),
        "!Ref ApiTarget",
        "ApiRoute forwards to ApiTarget, which no container serves: add it to the Service's LoadBalancers",
        id="route to nobody",
    ),
    pytest.param(
        (BALANCED, BALANCED.replace("9001", "9002")),
        "9002, TargetGroupArn",
        "ContainerPort 9002 of ingest: it listens on 9001",
        id="load balancer at another port",
    ),
    pytest.param(
        (INGEST, INGEST.replace(", --host, 0.0.0.0", "")),
        "[python, -m, infra.runner, ingest",
        f"ingest is behind the load balancer (line {line_of(BALANCED)[0]}) but listens on 127.0.0.1 only: add --host, "
        f"0.0.0.0",  # noqa: S104 - part of the sentence
        id="unreachable from the load balancer",
    ),
    pytest.param(
        (
            "      Actions: [{Type: forward, TargetGroupArn: !Ref ApiTarget}]",
            "      Actions: [{Type: forward, TargetGroupArn: !Ref ApiTraget}]",
        ),
        "!Ref ApiTraget",
        "'ApiTraget' is neither a resource nor a parameter; did you mean 'ApiTarget'?",
        id="reference to nothing",
    ),
    pytest.param(
        (
            "- WithDiscordRelay\n          - Name: discord_relay",
            "- WithDiscordRely\n          - Name: discord_relay",
        ),
        "WithDiscordRely\n",
        "'WithDiscordRely' is no condition; did you mean 'WithDiscordRelay'?",
        id="optional by no condition",
    ),
    pytest.param(
        ("[python, -m, infra.discord_relay]", "[python, -m, infra.discord]"),
        "[python, -m, infra.discord]",
        f"container 'discord_relay' should run a function as {FORM}, or [python, -m, infra.ticker, …], "
        f"[python, -m, infra.replicate], [python, -m, infra.restore, …] or [python, -m, infra.discord_relay]",
        id="an optional container is checked",
    ),
    pytest.param(
        ("      Priority: 20", "      Priority: 10"),
        "10\n      Conditions:\n        - {Field: path-pattern, PathPatternConfig: {Values: [/api",
        f"priority 10 of ApiRoute is taken by the rule in line {line_of('  WebhookRoute:')[0]}",
        id="two rules of one priority",
    ),
    pytest.param(
        ("      POSTROOM_NEW_CHATS: wire\n      POSTROOM_LEASH: auto", "      - POSTROOM_NEW_CHATS"),
        "- POSTROOM_NEW_CHATS",
        "Metadata.Emulator.Environment should be a mapping of names to values",
        id="environment of the wrong type",
    ),
    pytest.param(
        ("    Environment:\n      POSTROOM_NEW_CHATS", "    Enviroment:\n      POSTROOM_NEW_CHATS"),
        "Enviroment",
        "unknown setting 'Enviroment' in Metadata.Emulator; did you mean 'Environment'?",
        id="unknown setting of the emulator",
    ),
    pytest.param(
        ("  Cluster:\n    Type: AWS::ECS::Cluster", "  Cluster:\n    Type: AWS::Lambda::Function"),
        "Cluster:\n    Type: AWS::Lambda",
        "Cluster is AWS::Lambda::Function: each Lambda environment is a host of its own, and SQLite in WAL mode needs "
        "one; make it a container of the task",
        id="Lambda",
    ),
    pytest.param(
        (
            "DependsOn: [{ContainerName: restore, Condition: SUCCESS}]\n          Secrets",
            "DependsOn: [{ContainerName: restor, Condition: SUCCESS}]\n          Secrets",
        ),
        "restor,",
        "unknown container 'restor' in DependsOn of container 'ticker'; did you mean 'restore'?",
        id="dependency on nothing",
    ),
    pytest.param(
        ("      DesiredCount: 1\n", ""),
        "Service:\n    Type: AWS::ECS::Service",
        "Service has no DesiredCount: it should be 1, because SQLite in WAL mode works on one host only",
        id="count left out",
    ),
    pytest.param(
        ("    Type: AWS::ECS::Cluster", "    Type: AWS::ECS::Cluster\n    Type: AWS::ECS::Cluster"),
        "Type: AWS::ECS::Cluster\n\n",
        f"'Type' is defined twice here, first in line {line_of('    Type: AWS::ECS::Cluster')[0]}",
        id="a key twice",
    ),
    pytest.param(
        ("  Cluster:\n    Type: AWS::ECS::Cluster", "  Cluster:\n    Type: [AWS::ECS::Cluster"),
        "Type: AWS::ECS::TaskDefinition",
        None,
        id="not YAML",
    ),
]


@pytest.mark.parametrize(("change", "place", "message"), MISTAKES)
def test_a_mistake_is_one_problem_at_its_line_and_column(tmp_path, change, place, message):
    text = planted(change)

    (problem,) = problems_of(tmp_path, text)

    if message is None:
        assert problem.message.startswith("this is not YAML: ")
        assert abs(problem.line - line_of("Cluster:\n    Type: [AWS", text)[0]) < 6
        return
    assert (problem.line, problem.column) == _first(place, text, problem)
    assert problem.message == message
    assert str(problem) == f"{tmp_path}/template.yaml:{problem.line}:{problem.column} error {message}"


def _first(place, text, problem):
    """The occurrence of *place* at the problem's line, or the only one."""
    if text.count(place) > 1:
        line = text.splitlines()[problem.line - 1]
        assert place in line, f"{place!r} is not in {line!r}"
        return problem.line, line.index(place) + 1
    return line_of(place, text)


def test_all_problems_are_reported_at_once_in_the_order_of_the_file(tmp_path):
    text = planted(
        ("DesiredCount: 1", "DesiredCount: 2"),
        (BALANCED, BALANCED.replace("ingest", "ingset")),
        ("deliver=1s@9003", "deliver=1@9003"),
        (DISPATCH, DISPATCH.replace("--timeout", "--timout")),
        ("      POSTROOM_NEW_CHATS: wire", "      POSTROOM_NEW_CHATS: [wire]"),
    )

    problems = problems_of(tmp_path, text)

    assert [problem.message.split(":")[0].split(";")[0] for problem in problems] == [
        "Metadata.Emulator.Environment.POSTROOM_NEW_CHATS should be text",
        "container 'dispatch'",
        "the interval of 'deliver=1@9003'",
        "DesiredCount is 2",
        "unknown container 'ingset' in Service.LoadBalancers",
    ]
    assert [problem.line for problem in problems] == sorted(problem.line for problem in problems)


def test_two_functions_on_one_port_are_a_problem(tmp_path):
    text = planted((DISPATCH, DISPATCH.replace("9002", "9004")), ("dispatch=5s@9002", "dispatch=5s@9004"))

    (problem,) = problems_of(tmp_path, text)

    line = line_of("- Name: dispatch", text)[0]
    assert problem.message == f"port 9004 of container 'sweep' is already that of 'dispatch' (line {line})"
    assert problem.line == line_of("infra.runner, sweep", text)[0]


def test_a_function_without_its_file_is_a_problem(tmp_path):
    for name in ("ingest", "dispatch", "deliver", "sweep", "recurrences", "api"):
        (tmp_path / "functions").mkdir(exist_ok=True)
        (tmp_path / "functions" / f"{name}.py").touch()

    (problem,) = problems_of(tmp_path, TEXT, root=tmp_path)

    assert problem.message == "functions/recurrence.py does not exist; did you mean 'recurrences'?"
    assert (problem.line, problem.column) == line_of('recurrence, --port, "9005"')


def test_a_ticked_function_needs_the_secret(tmp_path):
    old = (
        "          Secrets: [{Name: POSTROOM_TICK_SECRET, ValueFrom: !Ref TickSecret}]\n          HealthCheck:\n"
        '            Command: [CMD, python, -m, infra.probe, "9005"]'
    )
    text = planted((old, old.split("\n", 1)[1]))

    (problem,) = problems_of(tmp_path, text)

    tick = line_of("recurrence=60s@9005", text)[0]
    assert problem.message == f"recurrence is ticked (line {tick}) but not given POSTROOM_TICK_SECRET"
    assert problem.line == line_of("- Name: recurrence\n", text)[0]


@pytest.mark.parametrize(
    ("data", "line", "column", "message"),
    [
        (b"", 1, 1, "the file is empty"),
        (b"# nothing\n", 1, 1, "the file is empty"),
        (b"Resources:\n  A: \xff\n", 2, 6, "this is not UTF-8 text"),
        (b"Resources:\n  A: x\x07\n", 2, 7, "this is not YAML: "),
        (b"Resources:\n\tA: 1\n", 2, 1, "this is not YAML: "),
        (b"a: &x [1]\nb: *x\n", 2, 4, "CloudFormation refuses YAML aliases; write the value out"),
        (b"a: &x [*x]\n", 1, 8, "CloudFormation refuses YAML aliases; write the value out"),
        (b"a: 1\n---\nb: 1\n", 2, 1, "this is not YAML: "),
    ],
)
def test_an_unreadable_file_is_one_problem_at_its_place(tmp_path, data, line, column, message):
    path = tmp_path / "template.yaml"
    path.write_bytes(data)

    with pytest.raises(TemplateInvalid) as caught:
        load(path)

    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (line, column)
    assert problem.message.startswith(message)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "7",
        "Resources: 7",
        "Resources: []",
        "Resources: {}",
        "Resources: {A: 1}",
        "Resources: {A: {Type: [x]}}",
        "Parameters: [1]\nResources: {A: {Type: AWS::ECS::Service, Properties: 7}}",
        "Metadata: 3\nResources: {T: {Type: AWS::ECS::TaskDefinition, Properties: {ContainerDefinitions: 5}}}",
        "Resources: {T: {Type: AWS::ECS::TaskDefinition, Properties: {ContainerDefinitions: [1, {Name: [a]}, {Name: b, "
        "Command: x}, {Name: c, Command: [python, -m, infra.runner]}, {Name: d, Command: []}]}}}",
        "Resources: {S: {Type: AWS::ECS::Service, Properties: {DesiredCount: {a: 1}, LoadBalancers: [{}, 3]}}}",
        "Resources: {R: {Type: AWS::ElasticLoadBalancingV2::ListenerRule, Properties: {Conditions: [1], Actions: {}}}}",
        "Resources: {R: {Type: x, Properties: {A: !Sub [1], B: !GetAtt [], C: !Ref [x], D: {'Fn::Sub': 3}}}}",
    ],
)
def test_any_other_shape_is_reported_as_problems(tmp_path, text):
    assert problems_of(tmp_path, text)


def test_a_value_that_only_the_cloud_can_resolve_stays_a_placeholder(tmp_path):
    value = '!Sub "s3://${ReplicaBucket}/${ReplicaPrefix}/${AWS::Region}/${!literal}"'
    line = "            - {{Name: {}, Value: !Ref {}}}\n"
    old = line.format("POSTROOM_CHAT_LIMIT", "ChatLimit") + line.format("POSTROOM_DURABILITY", "Durability")
    path = tmp_path / "template.yaml"
    path.write_text(planted((old, old + f"            - {{Name: X, Value: {value}}}\n")))

    ingest = load(path).functions[0]

    assert ingest.environment["X"] == "s3://${ReplicaBucket}/postroom/${AWS::Region}/${literal}"


NESTED = {
    "lists": ("[" * 50_000 + "]" * 50_000, 101),
    "mappings": ("{a: " * 50_000 + "1" + "}" * 50_000, 401),
    "lines": ("- " * 50_000 + "1", 201),
    "lists without an end": ("[" * 50_000, 101),
}


@pytest.mark.parametrize(("text", "column"), NESTED.values(), ids=NESTED)
def test_a_file_that_is_nested_without_end_is_one_problem(tmp_path, text, column):
    """Composing it recurses in C, and ended the process with a segmentation fault."""
    path = tmp_path / "template.yaml"
    path.write_text(text)

    with pytest.raises(TemplateInvalid) as caught:
        load(path)

    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (1, column)
    assert problem.message == "this is nested more than 100 deep; no template needs that"
