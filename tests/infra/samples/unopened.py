"""A function whose lifespan fails at the start."""

from contextlib import asynccontextmanager

from tests.infra.samples.sample import sample as unopened

__all__ = ["lifespan", "unopened"]


@asynccontextmanager
async def lifespan(_):
    raise OSError("the sample's disk is full")
    yield
