"""``template.yaml`` applied to moto: every resource is created, and a task gets of them what we read of the file."""

import ast
import json

import boto3
import pytest
from moto import mock_aws

from infra.template.deployment import load
from tests.infra.template import stack

pytestmark = [pytest.mark.long, pytest.mark.any_python]
ON = {
    "WithDiscordRelay": {"DiscordRelay": "on"},
    "WithLocalModels": {"LocalModelsUrl": "http://10.0.0.9:11434/v1"},
    "WithAccessLog": {"AccessLogBucket": "balancer-logs"},
}


@pytest.fixture(scope="module")
def aws():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "none")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "none")
        with mock_aws():
            yield lambda service: boto3.client(service, "us-east-1")


@pytest.fixture(scope="module")
def made(aws):
    return stack.create(aws)


def test_every_resource_of_the_template_is_created(made):
    wanted = stack.resources()
    assert set(made.ids) == set(wanted)
    assert all(made.ids.values())
    left_out = {each["Type"] for each in wanted.values()} & stack.NOT_IN_MOTO
    assert left_out == stack.NOT_IN_MOTO, "moto would create what the helper makes by hand"


def test_each_container_is_what_we_read_of_the_file_with_the_values_of_the_stack(made):
    deployment = load(stack.ROOT / "template.yaml")
    for spec in deployment.functions:
        container = made.containers[spec.name]
        assert container["command"][:5] == ["python", "-m", "infra.runner", spec.name, "--port"]
        given = {each["name"]: each["value"] for each in container["environment"]}
        assert given == spec.environment
        relay = {"DISCORD_RELAY_SECRET"}  # its condition is false
        assert {each["name"] for each in container.get("secrets", ())} == set(spec.secrets) - relay
    assert made.containers["ticker"]["command"][:3] == ["python", "-m", "infra.ticker"]
    assert {each["image"] for each in made.containers.values()} == {stack.IMAGE}


def test_the_replica_is_in_the_bucket_of_the_stack(made):
    url = f"s3://{made.ids['ReplicaBucket']}/postroom"
    assert made.outputs["ReplicaUrl"] == url
    assert {made.environment(name)["POSTROOM_REPLICA_URL"] for name in ("restore", "litestream")} == {url}
    assert {made.environment(name)["AWS_REGION"] for name in ("restore", "litestream")} == {"us-east-1"}


def test_each_secret_has_the_key_that_a_container_is_given(made):
    """A task whose secret lacks the key does not start."""
    secrets = {name: value for each in made.containers for name, value in made.environment(each).items()}
    assert {name for name, value in secrets.items() if value} >= {
        "POSTROOM_TICK_SECRET", "POSTROOM_API_TOKEN", "POSTROOM_ALERT_SECRET", "TELEGRAM_WEBHOOK_SECRET",
    }  # fmt: skip
    assert secrets["TELEGRAM_BOT_TOKEN"] == secrets["POSTROOM_OPENAI_API_KEY"] == "", "the operator fills them in"
    ticks = {made.environment(name)["POSTROOM_TICK_SECRET"] for name in ("ticker", "dispatch", "deliver", "sweep")}
    assert len(ticks) == 1, "the ticker and the functions share it"


def test_the_bucket_keeps_what_is_deleted_and_is_closed(aws, made):
    s3, bucket = aws("s3"), made.ids["ReplicaBucket"]
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    rules = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    assert {each["ID"]: each["NoncurrentVersionExpiration"]["NoncurrentDays"] for each in rules} == {
        "deleted-versions": 30, "lease-versions": 1,
    }  # fmt: skip
    (encrypted,) = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    assert encrypted["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    assert set(s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"].values()) == {True}
    (only,) = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])["Statement"]
    assert (only["Effect"], only["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    assert only["Resource"] == [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]


def test_a_request_reaches_its_container_by_the_listener_and_the_service(aws, made):
    rules = aws("elbv2").describe_rules(ListenerArn=made.ids["Listener"])["Rules"]
    groups = {
        path: rule["Actions"][0]["TargetGroupArn"]
        for rule in rules
        for condition in rule["Conditions"]
        for path in condition.get("PathPatternConfig", {}).get("Values", ())
    }
    (service,) = aws("ecs").describe_services(cluster=made.ids["Cluster"], services=[made.ids["Service"]])["services"]
    balanced = stack.resources()["Service"]["Properties"]["LoadBalancers"]
    behind = {made.ids[each["TargetGroupArn"]["Ref"]]: each["ContainerName"] for each in balanced}
    assert {path: behind[group] for path, group in groups.items()} == {
        each.path_pattern: each.function for each in load(stack.ROOT / "template.yaml").routes
    }
    assert service["desiredCount"] == 1


def test_the_roles_of_the_stack_read_its_own_secrets_and_its_own_bucket(aws, made):
    def statements(role, policy):
        name = made.ids[role].rpartition("/")[2]
        text = aws("iam").get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
        return ast.literal_eval(text)["Statement"]  # moto keeps it so

    secrets = {value for name, value in made.ids.items() if stack.resources()[name]["Type"] == stack.SECRET}
    assert set(statements("ExecutionRole", "read-secrets")[0]["Resource"]) == secrets
    listed, changed = statements("TaskRole", "replica")
    bucket = f"arn:aws:s3:::{made.ids['ReplicaBucket']}"
    assert (listed["Resource"], changed["Resource"]) == (bucket, f"{bucket}/postroom/*")


def test_with_every_option_the_relay_is_one_more_container_and_the_rest_is_as_before(aws, made):
    parameters = {name: value for each in ON.values() for name, value in each.items()}
    found = stack.create(aws, ON, "with-everything", **parameters)
    assert set(found.containers) - set(made.containers) == {"discord_relay"}
    relay, ingest = (found.environment(name)["DISCORD_RELAY_SECRET"] for name in ("discord_relay", "ingest"))
    assert relay == ingest
    assert len(relay) == 48
    assert found.environment("dispatch")["POSTROOM_LOCAL_MODELS_URL"] == "http://10.0.0.9:11434/v1"
