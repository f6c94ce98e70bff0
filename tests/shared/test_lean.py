"""What is imported without something, and that nobody else notices."""

import subprocess
import sys

import pytest

from shared.lean import without


@pytest.mark.parametrize("is_loaded", [False, True])
def test_what_is_kept_away_is_missing_within_and_there_afterwards(is_loaded):
    if is_loaded:
        import colorsys
    else:
        sys.modules.pop("colorsys", None)
    with without("colorsys"), pytest.raises(ImportError):
        import colorsys
    import colorsys

    assert colorsys.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)


@pytest.mark.parametrize("function", ["ingest", "dispatch", "deliver", "sweep", "recurrence", "api"])
def test_a_function_loads_nothing_that_draws_on_terminals_and_no_second_http_library(function):
    code = f"""
import sys
import functions.{function}, shared.channels.discord, shared.channels.telegram
print(*sorted({{"httpx", "pygments", "rich"}} & set(sys.modules)))
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []
