"""How old a table is: the commits of product code since the one that it measured."""

import re
import subprocess
from pathlib import Path

_CODE = ("shared", "functions", "infra", "emulator", "spark_jobs")
_MEASURED = re.compile(r"^The last run of `make bench`, of commit ([0-9a-f]{7,40})\b", re.MULTILINE)


def has_history(root: Path) -> bool:
    """Whether *root* is a clone with all its commits."""
    return _git(root, "rev-parse", "--is-shallow-repository") == "false"


def commits_since(root: Path, page: str) -> int:
    """How many commits have changed the product's code since the commit that *page* names.

    Raises:
        LookupError: the history in *root* does not tell.
    """
    found = _MEASURED.search(page)
    if found is None:
        raise LookupError("the page names no commit: run `make bench` in a clone, on a clean tree")
    commit = found[1]
    if _git(root, "merge-base", "--is-ancestor", commit, "HEAD") is None:
        if _git(root, "rev-parse", "--is-shallow-repository") == "true":
            raise LookupError(f"this clone is shallow and lacks commit {commit}: run `git fetch --unshallow`")
        raise LookupError(f"commit {commit} of the table is not in this history: run `make bench` again")
    counted = _git(root, "rev-list", "--count", f"{commit}..HEAD", "--", *_CODE)
    assert counted is not None, "git knows the commit, and counts nothing"
    return int(counted)


def _git(root: Path, *words: str) -> str | None:
    """What git says, or None where it says no."""
    done = subprocess.run(["git", "-C", str(root), *words], check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None
