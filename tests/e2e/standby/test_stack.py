"""The template applied to moto, and its bucket and settings on two hosts: the first is killed, the second goes on.

moto runs no containers. Each host has the environment files that ``infra.template.host_files`` writes of the template,
filled in as an operator does: the bucket and the secrets of the stack.
"""

import random
import signal
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.exceptions import ClientError

from emulator.proving.child import until
from emulator.proving.host import AWS
from emulator.proving.platform import SECRET, TOKEN, lines
from infra.template import host_files
from tests.e2e.standby import ledger
from tests.e2e.standby.conftest import CHATS, MakeHost
from tests.e2e.standby.hosts import PairPlatform
from tests.infra.template import stack

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.crash]


@pytest.fixture
def made(replica: str) -> stack.Stack:
    """The stack, in the process that is the bucket of the hosts; the operator has filled in the platform's token.

    moto speaks plain HTTP, which the bucket's policy refuses: it does so, and is taken away.
    """
    address = "http://" + replica.rpartition("http://")[2]
    keys = {"aws_access_key_id": AWS["AWS_ACCESS_KEY_ID"], "aws_secret_access_key": AWS["AWS_SECRET_ACCESS_KEY"]}
    found = stack.create(lambda service: boto3.client(service, AWS["AWS_REGION"], endpoint_url=address, **keys))
    found.client("secretsmanager").put_secret_value(
        SecretId=found.ids["ChannelSecrets"],
        SecretString=f'{{"TELEGRAM_BOT_TOKEN": "{TOKEN}", "TELEGRAM_WEBHOOK_SECRET": "{SECRET}"}}',
    )
    s3, bucket = found.client("s3"), found.ids["ReplicaBucket"]
    with pytest.raises(ClientError, match=r"403|AccessDenied"):
        s3.put_object(Bucket=bucket, Key="postroom/plain", Body=b"")
    s3.delete_bucket_policy(Bucket=bucket)
    return found


def settings(folder: Path, made: stack.Stack, replica: str) -> tuple[dict[str, str], dict[str, str]]:
    """What the files of a host say: the variables of all its programs, and the arguments of each function."""
    etc = folder / "etc"
    etc.mkdir(parents=True)
    host_files.main(str(stack.ROOT / "template.yaml"), str(etc))
    host = etc / host_files.HOST
    text = host.read_text().replace("/var/lib/postroom", str(folder)).replace("/run/postroom", str(folder))
    url = f"{made.outputs['ReplicaUrl']}?{urlsplit(replica).query}"
    text = text.replace(f"file://{folder}/replica", url)
    secrets = {each["name"]: each["valueFrom"] for one in made.containers.values() for each in one.get("secrets", ())}
    for name in ("TELEGRAM_BOT_TOKEN", "TELEGRAM_WEBHOOK_SECRET"):
        assert f"\n# {name}=\n" in text
        text = text.replace(f"# {name}=", f"{name}={made.secret(secrets[name])}")
    host.write_text(text)
    arguments = {each.stem: each.read_text().partition("ARGUMENTS=")[2] for each in etc.glob("*.env")}
    return dict(line.split("=", 1) for line in text.splitlines() if line and line[0] != "#"), arguments


def test_the_second_host_of_the_stack_takes_over_and_no_message_is_lost(
    make_host: MakeHost, made: stack.Stack, platform: PairPlatform, replica: str, tmp_path: Path
) -> None:
    hosts = []
    for name in ("host0", "host1"):
        environment, arguments = settings(tmp_path / name, made, replica)
        ticks = made.environment("ticker")["POSTROOM_TICK_SECRET"]
        hosts.append(make_host(arguments, **{**environment, "POSTROOM_TICK_SECRET": ticks}))
    first, second = hosts
    first.prepare({"many": 8}, dict.fromkeys(CHATS, "many"))
    first.start()
    first.wait_active()
    second.start()
    second.wait_following()

    def accepted(port: int) -> int:
        return sum(of == port for _, of in platform.accepted)

    texts = lines(CHATS, 100_000, lambda _: "ok:0.02", random.Random(7))
    with platform.people(0, texts, pace_s=0.2):
        until("messages", lambda: accepted(first.ports["ingest"]) > 10)
        first.signal(signal.SIGKILL)
        until("the second host to answer", lambda: accepted(second.ports["ingest"]) > 10, 60)
    first.lose_disk()
    until("all work to end", lambda: not second.open_work(), 60)

    ledger.check(second)
    bucket = made.ids["ReplicaBucket"]
    found = made.client("s3").list_objects_v2(Bucket=bucket, Prefix="postroom/lease.json")["Contents"]
    assert [each["Key"] for each in found] == ["postroom/lease.json"]
