"""One mistake in the template is one sentence, at its place."""

import pytest

from infra.template.cloudformation import TemplateInvalid
from infra.template.deployment import load
from tests.infra.template.planted import TEXT, line_of, planted, problems_of

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
