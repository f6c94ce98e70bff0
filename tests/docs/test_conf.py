import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.any_python]
ROOT = Path(__file__).parents[2]


def test_the_pages_make_a_site_without_a_warning(tmp_path):
    """Every page is listed in one that lists others, and every link, anchors too, leads somewhere."""
    sphinx = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs", ".", str(tmp_path)]
    made = subprocess.run(sphinx, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (made.returncode, made.stderr) == (0, "")
    assert "The ideas" in (tmp_path / "docs/README.html").read_text()
    assert "wiring" in (tmp_path / "searchindex.js").read_text()
