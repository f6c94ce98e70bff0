import pytest

from tests.shared.queue.series.kinds import Messages, Responses


@pytest.fixture(params=[Messages, Responses], ids=["messages", "responses"])
def kind(request, conn):
    return request.param(conn)
