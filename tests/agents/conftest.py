"""One running system for all tests with real programs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.harness import KEY, AgentSystem, environment
from tests.agents.model_api import serving_beside
from tests.e2e.conftest import System


@pytest.fixture(scope="session")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentSystem]:
    """The system is up; its models are the scripted one, which wants the operator's key."""
    state: Path = tmp_path_factory.mktemp("agents") / "state"
    with serving_beside(KEY) as api:
        system = System(state, environment=environment(api))
        try:
            system.start()
            yield AgentSystem(system, api)
        finally:
            system.stop()
