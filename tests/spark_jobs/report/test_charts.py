"""The geometry of the plots, in literal numbers. A plot is 168 pixels high, from 12 to 180."""

import pytest

from spark_jobs.report.charts import COLOURS, OTHERS, ceiling, day_ticks, folded, lines, stacked, time_range
from spark_jobs.report.graph import MOST_AGENTS, graph
from spark_jobs.report.words import number
from tests.spark_jobs.report.samples import back

WEEK = [back(days) for days in range(6, -1, -1)]


def test_the_parts_of_a_column_stand_on_one_another():
    values = {"telegram": {back(0): 6, back(1): 3}, "discord": {back(0): 2}}
    chart = stacked([back(1), back(0)], values, number, "said")
    assert [(bar.x, bar.y, bar.width, bar.height, bar.colour, bar.says) for bar in chart.bars] == [
        (7.0, 117.0, 36.0, 63.0, 0, "8 Oct, telegram: 3"),
        (57.0, 54.0, 36.0, 126.0, 0, "9 Oct, telegram: 6"),
        (57.0, 12.0, 36.0, 42.0, 1, "9 Oct, discord: 2"),
    ]
    assert [(tick.at, tick.label) for tick in chart.rows] == [(180, "0"), (96, "4"), (12, "8")]
    assert chart.legend == ((0, "telegram"), (1, "discord"))


def test_a_series_without_a_value_is_in_no_legend_and_a_colour_can_be_given():
    chart = stacked(WEEK, {"begun": {back(0): 1}, "doubled": {}, "missed": {back(0): 1}}, number, "", {"missed": 6})
    assert chart.legend == ((0, "begun"), (6, "missed"))
    assert [bar.colour for bar in chart.bars] == [0, 6]


def test_a_plot_without_values_has_an_axis():
    chart = stacked(WEEK, {}, number, "")
    assert [tick.label for tick in chart.rows] == ["0", "1", "2"]
    assert [tick.label for tick in lines(WEEK, {"p50": {}}, "").rows] == ["100\u00a0ms", "1\u00a0s"]


def test_a_line_has_gaps_where_a_day_has_no_value():
    chart = lines([back(3), back(2), back(1), back(0)], {"p50": {back(3): 100, back(2): 1000, back(0): 100}}, "said")
    assert [(dot.x, dot.y, dot.says) for dot in chart.dots] == [
        (12.5, 180, "6 Oct, p50: 100\u00a0ms"),
        (37.5, 12, "7 Oct, p50: 1\u00a0s"),
        (87.5, 180, "9 Oct, p50: 100\u00a0ms"),
    ]
    assert [(each.x1, each.y1, each.x2, each.y2) for each in chart.segments] == [(12.5, 180, 37.5, 12)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], (100, 1000)),
        ([0], (1, 10)),
        ([100], (10, 100)),
        ([5, 70_000], (1, 600_000)),
        ([9e12], (345_600_000, 9e12)),
    ],
)
def test_the_axis_of_times_holds_all_values(values, expected):
    assert time_range(values) == expected


@pytest.mark.parametrize(
    ("highest", "is_whole", "expected"),
    [(0, True, 2), (1, True, 2), (3, True, 4), (7, True, 8), (11, True, 12), (104, True, 120), (1_000, True, 1000),
     (0.3, False, 0.3), (1.5, False, 1.6), (0, False, 1e-6)],
)  # fmt: skip
def test_the_axis_ends_with_a_round_number(highest, is_whole, expected):
    assert ceiling(highest, is_whole=is_whole) == pytest.approx(expected)


def test_a_few_days_have_labels_and_today_always():
    assert [(tick.at, tick.label) for tick in day_ticks(WEEK)] == [
        (7.14, "3 Oct"), (35.71, "5 Oct"), (64.29, "7 Oct"), (92.86, "9 Oct"),
    ]  # fmt: skip
    month = [back(days) for days in range(29, -1, -1)]
    assert [tick.label for tick in day_ticks(month)] == ["15 Sep", "21 Sep", "27 Sep", "3 Oct", "9 Oct"]


def test_more_series_than_colours_are_one_in_the_end():
    values = {f"agent{index}": {back(0): 10 - index} for index in range(10)}
    found = folded(values)
    assert list(found) == [*(f"agent{index}" for index in range(7)), OTHERS]
    assert found[OTHERS] == {back(0): 3 + 2 + 1}
    assert {bar.colour for bar in stacked(WEEK, values, number, "").bars} == set(range(COLOURS))


def test_the_graph_has_an_arrow_for_each_way():
    found = graph({("a", "b"): 4, ("b", "a"): 1, ("b", "b"): 1})
    assert [(node.x, node.y, node.label) for node in found.nodes] == [(280, 50, "a"), (280, 290, "b")]
    assert [(arrow.width, arrow.says) for arrow in found.arrows] == [
        (6.0, "a to b: 4 messages"),
        (3.8, "b to a: 1 message"),
        (3.8, "b to b: 1 message"),
    ]
    assert len({arrow.path for arrow in found.arrows}) == 3


def test_a_large_graph_keeps_the_busiest_agents_and_says_how_much_it_left_out():
    found = graph({("hub", f"agent{index:02}"): index for index in range(1, 31)})
    assert len(found.nodes) == MOST_AGENTS
    assert [node.label for node in found.nodes][:2] == ["agent20", "agent21"]
    assert found.left_out == 30 - (MOST_AGENTS - 1)
