import stat

import pytest

from shared.channels import account_secrets
from shared.core.errors import ConfigInvalid
from shared.roster import account_tokens


def test_tokens_are_kept_for_the_owner_of_the_file_alone(tmp_path):
    path = tmp_path / "p.db.tokens"
    account_tokens.put(path, "telegram.a", {"bot_token": "1:a"})
    account_tokens.put(path, "telegram.b", {"bot_token": "2:b"})
    account_tokens.put(path, "telegram.a", {"bot_token": "1:c"})
    assert account_secrets.read(path) == {"telegram.a": {"bot_token": "1:c"}, "telegram.b": {"bot_token": "2:b"}}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    account_tokens.forget(path, "telegram.a")
    account_tokens.forget(path, "telegram.a")
    assert account_secrets.read(path) == {"telegram.b": {"bot_token": "2:b"}}


def test_a_file_that_can_not_be_read_is_not_overwritten(tmp_path):
    path = tmp_path / "p.db.tokens"
    path.write_text("{")
    with pytest.raises(ConfigInvalid):
        account_tokens.put(path, "telegram.a", {"bot_token": "1:a"})
    assert path.read_text() == "{"
