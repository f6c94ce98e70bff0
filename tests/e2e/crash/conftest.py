"""The seed, and hosts of Postroom that end with the test."""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from emulator.proving.host import Post
from emulator.proving.platform import Platform


@pytest.fixture
def seed() -> int:
    """The seed from the environment, to replay a failure, or a new one; pytest prints it when the test fails."""
    chosen = int(os.environ.get("CRASH_SEED") or random.randrange(2**32))
    print(f"replay with CRASH_SEED={chosen}")
    return chosen


@pytest.fixture
def dice(seed: int) -> random.Random:
    return random.Random(seed)


@pytest.fixture
def scale() -> float:
    """How much longer than in CI: ``CRASH_SCALE=20 make crash`` takes a night."""
    return float(os.environ.get("CRASH_SCALE", "1"))


@pytest.fixture
def platform() -> Iterator[Platform]:
    """A platform that accepts everything, unless the test gives it another plan."""
    platform = Platform()
    yield platform
    platform.close()


@pytest.fixture
def make_post(tmp_path: Path, platform: Platform, request: pytest.FixtureRequest) -> Iterator[Callable[..., Post]]:
    """Makes hosts. A failing test prints the end of their logs."""
    made: list[Post] = []

    def make(**options: Any) -> Post:
        made.append(Post(tmp_path / f"post{len(made)}", platform, **options))
        return made[-1]

    yield make
    for post in made:
        post.close()
        print(post.last_words())


Make = Callable[..., Post]
