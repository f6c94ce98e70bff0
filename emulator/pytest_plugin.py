"""The pytest plugin: the fixture ``emulator``, a ready Postroom for tests of whoever extends it.

pytest loads this module in every project of an installation, so it imports nothing but pytest before the fixture is
used. What the fixture gives is in :mod:`emulator.testing`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from emulator.testing import RunningEmulator


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("emulator_scope", "How long one emulator serves: function, module, session, …", default="module")
    parser.addini("emulator_project", "The folder with template.yaml, from the root of the tests.", default=".")


def _scope(fixture_name: str, config: pytest.Config) -> Any:
    return config.getini("emulator_scope")


@pytest.fixture(scope=_scope)
def emulator(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator["RunningEmulator"]:
    """A ready emulator with an empty database and a state folder of its own."""
    from emulator.testing import RunningEmulator  # late: see above

    project = pytestconfig.rootpath / pytestconfig.getini("emulator_project")
    started = RunningEmulator.launch(project, "--no-watch", state=tmp_path_factory.mktemp("emulator") / "state")
    try:
        started.wait_ready()
        yield started
    finally:
        started.stop()
