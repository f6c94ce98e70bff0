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


_LATE = """
import sys
from shared.core.slim_imports import late
with late("colorsys", "rgb_to_hsv"):
    from colorsys import rgb_to_hsv
assert "colorsys" not in sys.modules
assert rgb_to_hsv(0, 0, b=0) == (0.0, 0.0, 0)
assert "colorsys" in sys.modules
import colorsys
assert colorsys.hsv_to_rgb(0, 0, 0) == (0, 0, 0)
"""


def test_a_late_module_is_loaded_by_the_first_call():
    subprocess.run([sys.executable, "-c", _LATE], check=True)


_BARREN = """
import sys
from shared.core.slim_imports import barren
with barren("importlib.metadata", "entry_points"):
    from importlib.metadata import entry_points
assert list(entry_points(group="pydantic")) == []
assert "importlib.metadata" not in sys.modules
import shared.core.settings
assert "importlib.metadata" not in sys.modules
"""


def test_a_barren_function_finds_nothing_and_its_module_stays_unloaded():
    subprocess.run([sys.executable, "-c", _BARREN], check=True)


UNWANTED = {
    "aiohttp",
    "click",
    "nacl.bindings",
    "pydantic_settings",
    "watchfiles",
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
UNWANTED_WITHOUT_WORK = {"markdown_it", "shared.turns.tools.speaking"}


@pytest.mark.parametrize("function", ["ingest", "dispatch", "deliver", "sweep", "recurrence", "api"])
def test_the_runner_loads_a_function_without_the_framework_a_terminal_library_or_another_http_library(function):
    code = f"""
import sys
import infra.runner.serve
from infra.runner.loader import load
load("{function}")
print(*sorted({UNWANTED_WITHOUT_WORK} & set(sys.modules)))
import shared.channels.discord.channel, shared.channels.telegram.channel
print(*sorted({UNWANTED} & set(sys.modules)))
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []
