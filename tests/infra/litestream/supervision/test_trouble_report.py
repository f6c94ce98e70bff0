"""A trouble is reported when it begins and when it ends."""

import pytest

from infra.litestream.supervision.trouble_report import TroubleReport


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        ([None, None], []),
        (["away", "away", "refused"], [("begun", "away")]),
        (["away", None, None], [("begun", "away"), ("ended", None)]),
        (["away", None, "full"], [("begun", "away"), ("ended", None), ("begun", "full")]),
    ],
)
def test_each_trouble_is_told_once(seen: list[str | None], told: list[tuple[str, str | None]]) -> None:
    found: list[tuple[str, str | None]] = []
    trouble = TroubleReport(lambda event, reason=None: found.append((event, reason)), "begun", "ended")
    for problem in seen:
        trouble.see(problem)
    assert found == told
    assert trouble.problem == seen[-1]


def test_an_end_of_which_nothing_is_said() -> None:
    found: list[str] = []
    trouble = TroubleReport(lambda event, **_: found.append(event), "begun")
    trouble.see("away")
    trouble.see(None)
    assert found == ["begun"]
