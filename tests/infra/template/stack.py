"""The stack of ``template.yaml`` at moto: all that CloudFormation creates, but in memory.

moto knows no secrets and no bucket policies in templates, and of a bucket its encryption alone. These are made by their
own API from what the template says of them. Of a service it leaves the load balancers out.
"""

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cfnlint.decode import decode_str

ROOT = Path(__file__).parents[3]
SECRET, POLICY = "AWS::SecretsManager::Secret", "AWS::S3::BucketPolicy"
NOT_IN_MOTO = {SECRET, POLICY}
NO_VALUE = {"Ref": "AWS::NoValue"}
IMAGE = "registry.example/postroom@sha256:" + "0" * 64
Client = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Stack:
    """What was created: the physical ids by the template's names, the outputs, the task's containers by name."""

    ids: dict[str, str]
    outputs: dict[str, str]
    containers: dict[str, dict[str, Any]]
    client: Client

    def environment(self, container: str) -> dict[str, str]:
        """The variables of a container, with the values of its secrets, as ECS gives them."""
        found = self.containers[container]
        secrets = {each["name"]: self.secret(each["valueFrom"]) for each in found.get("secrets", ())}
        return {each["name"]: each["value"] for each in found.get("environment", ())} | secrets

    def secret(self, value_from: str) -> str:
        """The text of a secret, or of one key in it: ``ARN:KEY::``."""
        arn, key = value_from, ""
        if value_from.endswith("::"):
            arn, key = value_from.removesuffix("::").rsplit(":", 1)
        text: str = self.client("secretsmanager").get_secret_value(SecretId=arn)["SecretString"]
        return str(json.loads(text)[key]) if key else text


def resources(on: Collection[str] = ()) -> dict[str, Any]:
    """The resources as CloudFormation sees them when the conditions *on* are true; by default none is."""
    found = decode_str((ROOT / "template.yaml").read_text())[0]["Resources"]
    return {name: _chosen(each, on) for name, each in found.items() if each.get("Condition") in (None, *on)}


def create(client: Client, on: Collection[str] = (), name: str = "postroom", **parameters: str) -> Stack:
    """Create the stack with these parameters, which make the conditions *on* true, and what moto leaves out of it."""
    template = decode_str((ROOT / "template.yaml").read_text())[0]
    wanted = resources(on)
    kept = {name: each for name, each in wanted.items() if each["Type"] not in NOT_IN_MOTO}
    secrets = {name: _secret(client, each) for name, each in wanted.items() if each["Type"] == SECRET}
    for each in kept.values():
        each.pop("Condition", None)
    # A parameter in the place of a secret: a reference to either is the same.
    names = {**template["Parameters"], **{key: {"Type": "String"} for key in secrets}}
    ec2, formation = client("ec2"), client("cloudformation")
    given = {
        "ImageUri": IMAGE,
        "VpcId": ec2.describe_vpcs()["Vpcs"][0]["VpcId"],
        "SubnetIds": ",".join(each["SubnetId"] for each in ec2.describe_subnets()["Subnets"][:2]),
        "CertificateArn": client("acm").request_certificate(DomainName="bot.example.com")["CertificateArn"],
        **parameters,
        **secrets,
    }
    formation.create_stack(
        StackName=name,
        TemplateBody=json.dumps({**template, "Parameters": names, "Resources": kept}),
        Capabilities=["CAPABILITY_IAM"],
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in given.items()],
    )
    (made,) = formation.describe_stacks(StackName=name)["Stacks"]
    assert made["StackStatus"] == "CREATE_COMPLETE"
    parts = formation.describe_stack_resources(StackName=name)["StackResources"]
    ids = {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in parts} | secrets
    ids |= {key: ids["ReplicaBucket"] for key, each in wanted.items() if each["Type"] == POLICY}
    _complete(client("s3"), ids["ReplicaBucket"], wanted)
    task = client("ecs").describe_task_definition(taskDefinition=ids["Task"])["taskDefinition"]
    return Stack(
        ids,
        {each["OutputKey"]: each["OutputValue"] for each in made["Outputs"]},
        {each["name"]: each for each in task["containerDefinitions"]},
        client,
    )


def _secret(client: Client, resource: dict[str, Any]) -> str:
    """Make the secret as the template says: its own text, or a generated one; its ARN."""
    manager, properties = client("secretsmanager"), resource["Properties"]
    text = properties.get("SecretString")
    if text is None:
        wanted = properties["GenerateSecretString"]
        text = manager.get_random_password(
            PasswordLength=wanted["PasswordLength"], ExcludePunctuation=wanted["ExcludePunctuation"]
        )["RandomPassword"]
        if "GenerateStringKey" in wanted:
            text = json.dumps({**json.loads(wanted["SecretStringTemplate"]), wanted["GenerateStringKey"]: text})
    made = manager.create_secret(Name=f"secret-{len(manager.list_secrets()['SecretList'])}", SecretString=text)
    arn: str = made["ARN"]
    return arn


def _complete(s3: Any, bucket: str, wanted: dict[str, Any]) -> None:
    """Give the bucket the properties that moto leaves out."""
    properties = wanted["ReplicaBucket"]["Properties"]
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=properties["VersioningConfiguration"])
    s3.put_public_access_block(
        Bucket=bucket, PublicAccessBlockConfiguration=properties["PublicAccessBlockConfiguration"]
    )
    rules = [
        {
            "ID": each["Id"],
            "Status": each["Status"],
            "Filter": {"Prefix": "postroom/lease.json" if "Prefix" in each else ""},
            "NoncurrentVersionExpiration": each["NoncurrentVersionExpiration"],
        }
        for each in properties["LifecycleConfiguration"]["Rules"]
    ]
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})
    policy = _filled(wanted["ReplicaBucketPolicy"]["Properties"]["PolicyDocument"], bucket)
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))


def _chosen(node: Any, on: Collection[str]) -> Any:
    """The tree without ``Fn::If``."""
    if isinstance(node, list):
        return [each for each in (_chosen(each, on) for each in node) if each != NO_VALUE]
    if not isinstance(node, dict):
        return node
    if "Fn::If" in node:
        condition, there, otherwise = node["Fn::If"]
        return _chosen(there if condition in on else otherwise, on)
    return {name: _chosen(each, on) for name, each in node.items()}


def _filled(node: Any, bucket: str) -> Any:
    """The policy with the ARN of the bucket."""
    text = json.dumps(node).replace('{"Fn::GetAtt": ["ReplicaBucket", "Arn"]}', '"${ReplicaBucket.Arn}"')
    text = text.replace('{"Fn::Sub": "${ReplicaBucket.Arn}/*"}', '"${ReplicaBucket.Arn}/*"')
    return json.loads(text.replace("${ReplicaBucket.Arn}", f"arn:aws:s3:::{bucket}"))
