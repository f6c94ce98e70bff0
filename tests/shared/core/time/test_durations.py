import pytest

from shared.core.time.durations import parse_ms


@pytest.mark.parametrize(("text", "ms"), [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("24h", 86_400_000)])
def test_a_duration_is_a_whole_number_and_its_unit(text, ms):
    assert parse_ms(text) == ms


@pytest.mark.parametrize("text", ["", "10", "0s", "1.5s", "-1s", "10 s", "1d", "1000000000ms"])
def test_any_other_duration_is_refused_with_the_form(text):
    with pytest.raises(ValueError, match=r"write a whole number and ms, s, m or h"):
        parse_ms(text)
