import resource

import pytest

from shared.runtime.open_files import MOST_CONNECTIONS, connection_limit


@pytest.fixture
def allowed():
    """Sets how many files this process may open."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda count: resource.setrlimit(resource.RLIMIT_NOFILE, (count, before[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(("files", "servers", "limit"), [(256, 1, 128), (256, 2, 64), (1024, 1, 512), (300, 200, 1)])
def test_half_of_the_file_descriptors_are_for_connections(allowed, files, servers, limit):
    allowed(files)
    assert connection_limit(servers) == limit


def test_however_many_files_there_may_be_the_connections_have_a_limit(allowed):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed(most)
    assert 0 < connection_limit() <= MOST_CONNECTIONS
