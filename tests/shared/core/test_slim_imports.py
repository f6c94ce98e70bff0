import subprocess
import sys

import pytest

from shared.core.slim_imports import without


@pytest.mark.parametrize("is_loaded", [False, True])
def test_an_excluded_module_is_missing_in_the_block_and_there_afterwards(is_loaded):
    if is_loaded:
        import colorsys
    else:
        sys.modules.pop("colorsys", None)
    with without("colorsys"), pytest.raises(ImportError):
        import colorsys
    import colorsys

    assert colorsys.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)


UNWANTED = {
    "aiohttp",
    "httpcore",
    "certifi",
    "flask",
    "functions_framework",
    "cloudevents",
    "httpx",
    "pygments",
    "rich",
    "werkzeug",
}


@pytest.mark.parametrize("function", ["ingest", "dispatch", "deliver", "sweep", "recurrence", "api"])
def test_the_runner_loads_a_function_without_the_framework_a_terminal_library_or_another_http_library(function):
    code = f"""
import sys
from infra.runner.loader import load
import shared.channels.discord.channel, shared.channels.telegram.channel
load("{function}")
print(*sorted({UNWANTED} & set(sys.modules)))
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []
