import pytest

from tests.shared.agents.providers.claude.claude_program import FakeClaude


@pytest.fixture
def program(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "work").mkdir()
    return FakeClaude(tmp_path / "bin")
