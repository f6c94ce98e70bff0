"""What the stack of template.yaml may not do, and who may not reach it."""

import re

from cfnlint.decode import decode_str

from tests.infra.processes import ROOT

TEXT = (ROOT / "template.yaml").read_text()


def test_a_container_writes_to_its_volumes_alone_and_has_no_capability_of_root():
    for container in decode_str(TEXT)[0]["Resources"]["Task"]["Properties"]["ContainerDefinitions"]:
        container = container["Fn::If"][1] if "Fn::If" in container else container
        assert container["ReadonlyRootFilesystem"] is True, container["Name"]
        assert container["LinuxParameters"] == {"Capabilities": {"Drop": ["ALL"]}}, container["Name"]
    assert 'VOLUME ["/data", "/tmp"]' in (ROOT / "infra" / "Dockerfile").read_text(), "they have the image's modes"


def test_the_bucket_refuses_whoever_does_not_use_tls_and_the_image_is_named_by_its_digest():
    template = decode_str(TEXT)[0]
    (statement,) = template["Resources"]["ReplicaBucketPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    allowed = re.compile(template["Parameters"]["ImageUri"]["AllowedPattern"])
    assert allowed.fullmatch(f"1.dkr.ecr.eu-central-1.amazonaws.com/postroom@sha256:{'0f' * 32}")
    assert not allowed.fullmatch("1.dkr.ecr.eu-central-1.amazonaws.com/postroom:1")


def test_the_task_reaches_https_alone_unless_it_has_a_server_of_models():
    rule, further = decode_str(TEXT)[0]["Resources"]["TaskSecurityGroup"]["Properties"]["SecurityGroupEgress"]
    assert (further["Fn::If"][0], further["Fn::If"][2]) == ("WithLocalModels", {"Ref": "AWS::NoValue"})
    assert (rule["FromPort"], rule["ToPort"], rule["CidrIp"]) == (443, 443, {"Ref": "EgressCidr"})
