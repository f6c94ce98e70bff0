"""A bucket, a platform and hosts that end with the test."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e.standby.hosts import Host, PairPlatform, bucket

CHATS = [str(chat) for chat in range(100, 112)]
AGENTS = {"alone": 1, "many": 8}
MakeHost = Callable[..., Host]


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[str]:
    with bucket(tmp_path / "s3") as url:
        yield url


@pytest.fixture
def platform() -> Iterator[PairPlatform]:
    platform = PairPlatform()
    yield platform
    platform.close()


@pytest.fixture
def make_host(tmp_path: Path, replica: str, platform: PairPlatform) -> Iterator[MakeHost]:
    """Makes hosts of one pair. A failing test prints the end of their logs."""
    made: list[Host] = []

    def make(arguments: Mapping[str, str] | None = None, **environment: str) -> Host:
        folder = tmp_path / f"host{len(made)}"
        host = Host(folder, platform, replica, tmp_path / "record", arguments, **environment)
        made.append(host)
        platform.ports.append(host.ports["ingest"])
        return host

    yield make
    for host in made:
        host.close()
        print(host.last_words())
