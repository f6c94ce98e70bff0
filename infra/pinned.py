"""``python infra/pinned.py REPORT``: whether pip installed what ``constraints.txt`` names, by pip's own report of it.

A constraint holds only the library that it names. One that a new release brings along would come in unseen.
"""

import json
import re
import sys
from pathlib import Path


def unpinned(report: str, constraints: str) -> list[str]:
    """What *report* installed and *constraints* does not name in this version. The project itself is left out."""
    pinned = {_as_one(*line.split("==")) for line in constraints.split() if "==" in line}
    installed = [
        (each["metadata"]["name"], each["metadata"]["version"])
        for each in json.loads(report)["install"]
        if "dir_info" not in each["download_info"]
    ]
    return sorted(f"{name}=={version}" for name, version in installed if _as_one(name, version) not in pinned)


def _as_one(name: str, version: str) -> str:
    """Names of libraries are the same in upper case, and with '-', '_' or '.'."""
    return f"{re.sub('[-_.]+', '-', name).lower()}=={version}"


def main() -> None:
    found = unpinned(Path(sys.argv[1]).read_text(), Path("constraints.txt").read_text())
    if found:
        sys.exit(f"pip installed what constraints.txt does not name: {', '.join(found)}. Add it there if you trust it")


if __name__ == "__main__":
    main()
