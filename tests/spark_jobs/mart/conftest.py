import pytest

from spark_jobs.__main__ import main


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.long)])
def anywhere(request, tmp_path):
    if request.param == "folder":
        return str(tmp_path / "mart")
    return f"s3://bucket/{tmp_path.name}?endpoint={request.getfixturevalue('s3')}"


@pytest.fixture
def mart(tmp_path):
    return str(tmp_path / "mart")


@pytest.fixture
def run(primary, cache):
    """Replicate, publish into a place; return the exit code."""

    def run(place, *options):
        primary.replicate()
        return main(["publish", "--replica", primary.url, "--mart", place, "--cache-dir", str(cache), *options])

    return run
