import pytest

from spark_jobs.report import words


@pytest.mark.parametrize(
    ("ms", "expected"),
    [(None, "-"), (0, "0 ms"), (999, "999 ms"), (1000, "1 s"), (4250, "4.2 s"), (119_000, "119 s"), (120_000, "2 min"),
     (9 * 3_600_000, "9 h"), (12 * 86_400_000, "12 days")],
)  # fmt: skip
def test_a_length_of_time_has_two_digits_and_stays_on_one_line(ms, expected):
    assert words.span(ms) == expected.replace(" ", "\u00a0")


@pytest.mark.parametrize(
    ("micro", "expected"),
    [(0, "$0.00"), (1_234_500_000, "$1,234.50"), (10_000, "$0.01"), (2500, "$0.0025"), (1, "$0.000001")],
)
def test_micro_dollars_are_shown_as_dollars(micro, expected):
    assert words.dollars(micro) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "(none)"),
        ("", "(none)"),
        ("coder", "coder"),
        ("a\u202eb\x1b[1m\n", "a\\u202eb\\x1b[1m\\n"),
        ("grüße", "\u2068grüße\u2069"),
        ("x" * 41, "\u2068" + "x" * 39 + "…\u2069"),
        ("\ud800", "\\ud800"),
    ],
)
def test_a_name_can_not_turn_its_line_or_hide(text, expected):
    assert words.name(text) == expected


@pytest.mark.parametrize(
    ("texts", "expected"), [([], "none"), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_texts_are_listed(texts, expected):
    assert words.listed(texts) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("coder", "coder"), ("x; rm -rf ~", "'x; rm -rf ~'"), ("$(id)\n", "'$(id)\\n'"), ("a'b", "'a'\"'\"'b'")],
)
def test_a_name_in_a_command_is_one_argument(text, expected):
    assert words.argument(text) == expected
