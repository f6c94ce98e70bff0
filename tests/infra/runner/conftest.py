import httpx
import pytest


@pytest.fixture
def client():
    with httpx.Client(timeout=60, trust_env=False) as client:
        yield client
