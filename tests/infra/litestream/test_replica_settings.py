"""The settings that Litestream gets."""

import pytest

from infra.litestream.replica_settings import replica_url, replicating_environment
from shared.core.errors import ConfigInvalid


@pytest.mark.parametrize(("setting", "taken"), [(None, "100ms"), ("2s", "2000ms"), ("10ms", "10ms")])
def test_litestream_gets_the_interval_of_its_uploads(setting, taken):
    environ = {} if setting is None else {"POSTROOM_REPLICA_INTERVAL": setting}
    assert replicating_environment(environ, "s3://b/epoch")["POSTROOM_REPLICA_INTERVAL"] == taken


@pytest.mark.parametrize("setting", ["9ms", "61s", "often"])
def test_an_interval_that_is_none_is_refused(setting):
    with pytest.raises(ConfigInvalid, match="POSTROOM_REPLICA_INTERVAL"):
        replicating_environment({"POSTROOM_REPLICA_INTERVAL": setting}, "s3://b/epoch")


@pytest.mark.parametrize("url", ["s4://b/p", "s3://key:s3cret@b", "s3://b/p?endpont=http://h", "/var/replica"])
def test_a_url_that_is_none_is_refused_by_the_name_of_its_setting_and_never_shown(monkeypatch, url):
    monkeypatch.setenv("POSTROOM_REPLICA_URL", url)
    with pytest.raises(ConfigInvalid, match=r"^POSTROOM_REPLICA_URL: ") as refused:
        replica_url()
    assert "s3cret" not in str(refused.value)


def test_what_the_operator_sets_for_go_wins_and_the_prefix_is_ours():
    environ = {"GOGC": "50", "POSTROOM_REPLICA_URL": "s3://b"}
    found = replicating_environment(environ, "s3://b/epoch")
    assert (found["GOGC"], found["POSTROOM_REPLICA_URL"]) == ("50", "s3://b/epoch")
