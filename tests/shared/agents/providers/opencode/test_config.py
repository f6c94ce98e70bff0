"""What an agent of opencode may say in its config."""

import pytest

from shared.agents.providers.opencode.config import read
from shared.core.errors import ConfigInvalid


def test_an_empty_config_takes_local_models_and_gives_no_tools_of_its_own():
    assert (read({}).tools, read({}).models) == ("none", "local")


@pytest.mark.parametrize(("config", "entry"), [({"tools": "shell"}, "tools"), ({"key": "x"}, "key")])
def test_a_wrong_entry_is_named(config, entry):
    with pytest.raises(ConfigInvalid, match=f"provider 'opencode' is wrong: {entry}: "):
        read(config)
