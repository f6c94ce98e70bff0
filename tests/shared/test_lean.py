"""What is imported without something, and that nobody else notices."""

import subprocess
import sys

import pytest

from shared.lean import Placeholder, in_name_only, without


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


@pytest.mark.parametrize("is_loaded", [False, True])
def test_what_is_there_in_name_only_is_itself_again_afterwards(is_loaded):
    if is_loaded:
        import wsgiref.util
    else:
        for name in ("wsgiref", "wsgiref.util"):
            sys.modules.pop(name, None)
    with in_name_only("wsgiref", "wsgiref.util"):
        import wsgiref.util
        from wsgiref.util import guess_scheme

        assert wsgiref.anything is wsgiref.util.anything is guess_scheme is Placeholder
    from wsgiref.util import guess_scheme

    assert guess_scheme({}) == "http"


@pytest.mark.parametrize("function", ["ingest", "dispatch", "deliver", "sweep", "recurrence", "api"])
def test_a_function_loads_nothing_that_draws_on_terminals_no_flask_and_no_second_http_library(function):
    code = f"""
import sys
import functions.{function}, infra.runner, shared.channels.discord, shared.channels.telegram
print(*sorted({{"flask", "httpx", "pygments", "rich", "werkzeug"}} & set(sys.modules)))
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []
