"""The state file of the relay, and what it knows of channels."""

import pytest

from infra.discord_relay.state import Channels, RelayState, StateFile


def test_what_is_written_is_read_by_its_owner_alone(tmp_path):
    path = tmp_path / "relay.json"
    state = RelayState("bot", "session", "wss://x", 7, {"1": "2", "3": None})
    StateFile(path).write(state)
    assert StateFile(path).read() == state
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"seq": "x"}'])
def test_a_broken_file_is_as_none(tmp_path, text):
    path = tmp_path / "relay.json"
    path.write_text(text)
    assert StateFile(path).read() == RelayState()
    assert StateFile(tmp_path / "missing.json").read() == RelayState()


@pytest.mark.parametrize("data", [None, [], {}, {"threads": None}, {"threads": [1, {}]}, {"id": 7, "parent_id": "1"}])
@pytest.mark.parametrize("name", ["GUILD_CREATE", "THREAD_LIST_SYNC", "THREAD_CREATE", "CHANNEL_CREATE", None])
def test_an_odd_frame_teaches_nothing(name, data):
    channels = Channels({})
    channels.learn(name, data)
    assert channels.as_dict() == {}


def test_the_oldest_channels_are_forgotten():
    channels = Channels({})
    for number in range(20_001):
        channels.put(str(number), "1")
    assert (channels.knows("0"), channels.knows("1"), len(channels.as_dict())) == (False, True, 20_000)
