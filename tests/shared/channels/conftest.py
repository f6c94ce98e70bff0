import pytest

from shared.channels import registry
from tests.shared.channels.kits import kit_of


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """The bots of the recorded events, and no setting of the machine the tests run on."""
    for platform in registry.PLATFORMS:
        for name, value in kit_of(platform).environment.items():
            monkeypatch.setenv(name, value)
    registry.get.cache_clear()
    yield
    registry.get.cache_clear()


@pytest.fixture
def telegram():
    return registry.get("telegram")


@pytest.fixture
def discord():
    return registry.get("discord")
