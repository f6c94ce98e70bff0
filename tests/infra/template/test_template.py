"""``template.yaml`` itself: what is read of it, its secrets, its disk, and its relay."""

import json
import os
import re
import time
from pathlib import Path

from cfnlint.api import ManualArgs, lint
from cfnlint.decode import decode_str

from infra.discord_relay.__main__ import plan
from infra.template.deployment import load
from infra.template.specs import FunctionSpec, RouteSpec, TickSpec
from shared.channels import standard_webhooks
from shared.turns.gateway.upstreams import GatewaySettings, upstreams
from tests.infra.template import stack
from tests.infra.template.planted import ROOT, TEMPLATE, TEXT, line_of, planted

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


def test_a_value_that_only_the_cloud_can_resolve_stays_a_placeholder(tmp_path):
    value = '!Sub "s3://${ReplicaBucket}/${ReplicaPrefix}/${AWS::Region}/${!literal}"'
    line = "            - {{Name: {}, Value: !Ref {}}}\n"
    old = line.format("POSTROOM_CHAT_LIMIT", "ChatLimit") + line.format("POSTROOM_DURABILITY", "Durability")
    path = tmp_path / "template.yaml"
    path.write_text(planted((old, old + f"            - {{Name: X, Value: {value}}}\n")))

    ingest = load(path).functions[0]

    assert ingest.environment["X"] == "s3://${ReplicaBucket}/postroom/${AWS::Region}/${literal}"
