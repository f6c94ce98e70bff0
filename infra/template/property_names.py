"""The names that CloudFormation gives to the properties of the resources which we read.

A misspelt name is no error for the reader: the property only has no effect here, and a stack with it does not come up.
"""

from collections.abc import Iterable, Iterator, Mapping

from infra.template.cloudformation import Node, did_you_mean


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CONTAINER = _names(
    """
    Command Cpu CredentialSpecs DependsOn DisableNetworking DnsSearchDomains DnsServers DockerLabels
    DockerSecurityOptions EntryPoint Environment EnvironmentFiles Essential ExtraHosts FirelensConfiguration HealthCheck
    Hostname Image Interactive Links LinuxParameters LogConfiguration Memory MemoryReservation MountPoints Name
    PortMappings Privileged PseudoTerminal ReadonlyRootFilesystem RepositoryCredentials ResourceRequirements
    RestartPolicy Secrets StartTimeout StopTimeout SystemControls Ulimits User VersionConsistency VolumesFrom
    WorkingDirectory
    """
)
_IN_CONTAINER: Mapping[str, frozenset[str]] = {  # of each element of a list, or of the one mapping
    "DependsOn": frozenset({"Condition", "ContainerName"}),
    "Environment": frozenset({"Name", "Value"}),
    "HealthCheck": frozenset({"Command", "Interval", "Retries", "StartPeriod", "Timeout"}),
    "LogConfiguration": frozenset({"LogDriver", "Options", "SecretOptions"}),
    "MountPoints": frozenset({"ContainerPath", "ReadOnly", "SourceVolume"}),
    "PortMappings": frozenset({"AppProtocol", "ContainerPort", "ContainerPortRange", "HostPort", "Name", "Protocol"}),
    "Secrets": frozenset({"Name", "ValueFrom"}),
}
_PROPERTIES: Mapping[str, frozenset[str]] = {
    "AWS::ECS::TaskDefinition": _names(
        """
        ContainerDefinitions Cpu EnableFaultInjection EphemeralStorage ExecutionRoleArn Family InferenceAccelerators
        IpcMode Memory NetworkMode PidMode PlacementConstraints ProxyConfiguration RequiresCompatibilities
        RuntimePlatform Tags TaskRoleArn Volumes
        """
    ),
    "AWS::ECS::Service": _names(
        """
        AvailabilityZoneRebalancing CapacityProviderStrategy Cluster DeploymentConfiguration DeploymentController
        DesiredCount EnableECSManagedTags EnableExecuteCommand ForceNewDeployment HealthCheckGracePeriodSeconds
        LaunchType LoadBalancers NetworkConfiguration PlacementConstraints PlacementStrategies PlatformVersion
        PropagateTags Role SchedulingStrategy ServiceConnectConfiguration ServiceName ServiceRegistries Tags
        TaskDefinition VolumeConfigurations VpcLatticeConfigurations
        """
    ),
    "AWS::ElasticLoadBalancingV2::TargetGroup": _names(
        """
        HealthCheckEnabled HealthCheckIntervalSeconds HealthCheckPath HealthCheckPort HealthCheckProtocol
        HealthCheckTimeoutSeconds HealthyThresholdCount IpAddressType Matcher Name Port Protocol ProtocolVersion Tags
        TargetControlPort TargetGroupAttributes TargetType Targets UnhealthyThresholdCount VpcId
        """
    ),
    "AWS::ElasticLoadBalancingV2::ListenerRule": _names("Actions Conditions ListenerArn Priority Transforms"),
}

OF_INFRA = _names(
    """
    POSTROOM_LITESTREAM_ADDR POSTROOM_REPLICA_INTERVAL POSTROOM_REPLICA_LEASE POSTROOM_REPLICA_RETENTION_MS
    POSTROOM_REPLICA_URL POSTROOM_REPLICA_VERIFY POSTROOM_STANDBY_FOLLOW
    """
)
"""The variables that the programs of ``infra`` read themselves, beside those of the settings models."""


def check_properties(resources: Iterable[Node]) -> None:
    """Note each property of these resources that CloudFormation does not know, and each path without its slash."""
    for resource in resources:
        properties = resource["Properties"]
        known = _PROPERTIES.get(resource["Type"].text or "")
        if known is None:
            continue
        _check(properties, known, resource.name)
        path = properties["HealthCheckPath"]
        if path and not (path.text or "").startswith("/"):
            path.problem(f"HealthCheckPath {path.text!r} of {resource.name} should begin with a slash")
        for container in properties["ContainerDefinitions"].elements():
            _check_container(container)


def _check_container(container: Node) -> None:
    what = f"container {container['Name'].text!r}"
    _check(container, _CONTAINER, what)
    for name, known in _IN_CONTAINER.items():
        for part in _parts(container[name]):
            _check(part, known, f"{name} of {what}")


def _parts(node: Node) -> Iterator[Node]:
    if isinstance(node.content, list):
        yield from node.content
    else:
        yield node


def _check(node: Node, known: frozenset[str], what: str) -> None:
    for name, entry in (node.content if isinstance(node.content, dict) else {}).items():
        if name not in known:
            entry.problem_at_key(f"{what} has no property {name!r}{did_you_mean(name, known)}")


def check_variables(resources: Iterable[Node], emulator: Node, known: frozenset[str]) -> None:
    """Note each variable of ours, in a container or for the emulator, that nothing reads."""
    for resource in resources:
        for container in resource["Properties"]["ContainerDefinitions"].elements():
            for section in ("Environment", "Secrets"):
                for entry in container[section].elements():
                    _check_variable(entry["Name"], entry["Name"].text or "", known)
    for name, node in emulator["Environment"].entries().items():
        _check_variable(node.key or node, name, known)


def _check_variable(place: Node, name: str, known: frozenset[str]) -> None:
    if name.startswith("POSTROOM_") and name not in known:
        place.problem(f"nothing reads the variable {name}{did_you_mean(name, known)}")
