import pytest

from shared.channels import registry
from tests.shared.channels.kits import kit_of


def test_a_channel_without_a_kit_is_told_which_file_to_add():
    with pytest.raises(AssertionError, match=r"add tests/shared/channels/pigeon/kit\.py with a KIT"):
        kit_of("pigeon")


@pytest.mark.parametrize("platform", registry.PLATFORMS)
def test_a_kit_records_what_people_send_and_signs_it(platform):
    kit = kit_of(platform)
    assert len({each.expect["kind"] for each in kit.recorded}) > 1
    assert kit.sign(b"{}").headers
