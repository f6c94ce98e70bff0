import pytest

from spark_jobs.jobs.agent_pairs import in_circles


@pytest.mark.parametrize(
    ("edges", "circling"),
    [
        ("ab bc ca", "ab bc ca"),
        ("ab bc ca cd", "ab bc ca"),
        ("ab bc cd da", "ab bc cd da"),
        ("ab ba", ""),
        ("ab ba bc cb", ""),
        ("ab ba bc ca", "ab bc ca"),
        ("aa ab bc", ""),
        ("ab bc cd ef fg ge", "ef fg ge"),
    ],
)
def test_a_circle_leads_back_over_other_agents(edges, circling):
    assert in_circles([tuple(edge) for edge in edges.split()]) == [tuple(edge) for edge in circling.split()]
