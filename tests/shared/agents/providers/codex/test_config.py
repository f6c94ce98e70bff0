"""What an agent of codex may say in its config."""

import pytest

from shared.agents.providers.codex.config import read
from shared.core.errors import ConfigInvalid


def test_an_empty_config_gives_no_tools_of_its_own():
    config = read({})
    assert (config.tools, config.models, config.mode) == ("none", "openai", "auto")


def test_the_chat_dialect_is_refused_and_the_error_names_providers_that_speak_it():
    with pytest.raises(ConfigInvalid, match=r"wire_api: .*responses dialect only, not 'chat'.*'api' or 'opencode'"):
        read({"wire_api": "chat"})


@pytest.mark.parametrize(
    ("config", "entry"), [({"tools": "shell"}, "tools"), ({"modle": "x"}, "modle"), ({"readable": "/etc"}, "readable")]
)
def test_a_wrong_entry_is_named(config, entry):
    with pytest.raises(ConfigInvalid, match=f"provider 'codex' is wrong: {entry}: "):
        read(config)
