import pytest

from shared.core.time.durations import TooLong, parse_ms


@pytest.mark.parametrize(("text", "ms"), [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("24h", 86_400_000)])
def test_a_duration_is_a_whole_number_and_its_unit(text, ms):
    assert parse_ms(text) == ms


@pytest.mark.parametrize("text", ["", "10", "0s", "1.5s", "-1s", "10 s", "1d"])
def test_any_other_duration_is_refused_with_the_form(text):
    with pytest.raises(ValueError, match=r"write a whole number and ms, s, m or h"):
        parse_ms(text)


@pytest.mark.parametrize("text", ["2000001h", "7200000001s", "9" * 5000 + "ms"])
def test_a_duration_is_called_too_long_where_only_its_length_is_wrong(text):
    with pytest.raises(TooLong, match="is too long: the longest duration is 2000000h") as refused:
        parse_ms(text)
    assert len(str(refused.value)) < 100
    assert parse_ms("2000000h") == 7_200_000_000_000
