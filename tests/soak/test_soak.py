"""The rule of the soak, its picture, and a soak of two hours in some seconds."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.soak import graph, trend
from tests.soak.day import FIGURES
from tests.soak.trend import Figure

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("values", "is_flat"),
    [
        ([100.0] * 24, True),
        ([100 + hour * 0.3 for hour in range(24)], True),  # 5 of 100
        ([100 + hour * 1.0 for hour in range(24)], False),
        ([100 - hour for hour in range(24)], True),
        ([100.0] * 20 + [300.0] + [100.0] * 3, True),  # one bad hour is no trend
        ([100.0, 130.0] * 12, True),  # nor is a saw
        ([10.0 + hour * 10 for hour in range(6)] + [70.0] * 18, True),  # it grew while it was warming up
        ([10.0] * 6 + [10.0 + hour for hour in range(18)], False),
    ],
)
def test_a_figure_is_flat_by_the_slope_of_most_pairs_of_hours(values: list[float], is_flat: bool) -> None:
    assert trend.of(values, 1, skip=trend.warm_up(24, 5)).is_flat is is_flat


def test_a_rise_below_the_floor_is_none() -> None:
    small = [1.0, 2.0, 3.0, 4.0]
    assert not trend.of(small, 0, skip=0).is_flat
    assert trend.of(small, 3, skip=0).is_flat


def test_half_of_the_hours_count_at_least() -> None:
    assert [trend.warm_up(hours, 5) for hours in (1, 4, 12, 24)] == [0, 2, 6, 6]


def test_the_picture_has_a_line_for_each_figure_and_says_what_grows() -> None:
    figures = [
        Figure("a", "Memory", "MB", 1),
        Figure("b", "Open & shut", "", 1),
        Figure("c", "Load", "", 0, is_judged=False),
    ]
    values = {"a": [10.0, 10.0, 10.0], "b": [10.0, 20.0, 30.0], "c": [1.0, 2.0, 3.0]}
    trends = {each.key: trend.of(values[each.key], each.floor, skip=0) for each in figures}
    picture = ET.fromstring(graph.draw(values, figures, trends, 0))  # noqa: S314 - our own
    assert len(picture.findall(f".//{SVG}polyline")) == 3
    said = [text.text for text in picture.findall(f".//{SVG}text")]
    assert [word for word in said if word in ("flat", "GROWS")] == ["flat", "GROWS"]
    assert "Open & shut" in said


@pytest.mark.e2e
@pytest.mark.long
@pytest.mark.any_python
def test_two_hours_on_real_processes_have_every_figure_and_lose_nothing(tmp_path: Path) -> None:
    argv = [
        sys.executable,
        "-m",
        "tests.soak",
        "--hours",
        "2",
        "--minutes",
        "0.2",
        "--rate",
        "3",
        "--out",
        str(tmp_path),
    ]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    found = json.loads((tmp_path / "soak.json").read_text())
    assert (found["lost"], len(found["hours"])) == (0, 2), done.stdout
    assert found["said"] > 0
    assert {figure.key for figure in FIGURES} <= found["hours"][0].keys()
    assert all(found["hours"][1][key] > 0 for key in ("functions_mb", "descriptors", "database_mb", "wal_mb", "cpu_ms"))
    assert (tmp_path / "soak.svg").read_text().count("<polyline") == len(FIGURES)
