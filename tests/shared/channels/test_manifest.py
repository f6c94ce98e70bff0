"""What an operator reads about a channel before it is set up."""

from typing import get_args

import pytest
from pydantic import SecretStr

from shared.channels import registry
from shared.channels.account_settings import AccountSettings
from shared.channels.manifest import Manifest
from shared.core.errors import UnknownName

every_channel = pytest.mark.parametrize("name", registry.PLATFORMS)


def fields(name):
    """The settings that the adapter reads, by name."""
    (read,) = [each for each in AccountSettings.__subclasses__() if each.env_prefix == f"{name}_".upper()]
    return {field.upper(): info for field, info in read.model_fields.items()}


@every_channel
def test_the_manifest_has_exactly_the_settings_that_the_adapter_reads(name):
    manifest = registry.manifest(name)
    assert isinstance(manifest, Manifest)
    assert manifest.platform == name
    assert {each.name for each in manifest.settings} == set(fields(name))


@every_channel
def test_it_tells_secrets_and_needed_settings_as_the_adapter_does(name):
    for each in registry.manifest(name).settings:
        info = fields(name)[each.name]
        assert each.is_secret == (SecretStr in (info.annotation, *get_args(info.annotation))), each.name
        assert each.is_needed == info.is_required(), each.name


@every_channel
def test_each_setting_and_step_is_a_line_for_people(name):
    manifest = registry.manifest(name)
    assert manifest.steps
    for line in (*(each.help for each in manifest.settings), *manifest.steps):
        assert line.endswith(".")
        assert "\n" not in line


def test_there_is_no_manifest_of_an_unknown_channel():
    with pytest.raises(UnknownName):
        registry.manifest("pigeon")
