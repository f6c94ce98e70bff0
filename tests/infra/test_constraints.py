"""The versions of libraries that the image and `make` install: each that the project names has exactly one."""

import re
import tomllib
from itertools import chain

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.infra.processes import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LINES = [
    line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.strip() and not line.startswith("#")
]


def test_each_line_is_one_exact_version():
    assert [line for line in LINES if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.+!-]*( ?;.*)?", line)] == []
    names = [canonicalize_name(line.partition("==")[0]) for line in LINES]
    assert len(names) == len(set(names))


def test_each_library_of_the_project_has_a_version_that_it_allows():
    pinned = {canonicalize_name(line.partition("==")[0]): line.partition("==")[2] for line in LINES}
    for text in (*PROJECT["dependencies"], *chain.from_iterable(PROJECT["optional-dependencies"].values())):
        wanted = Requirement(text)
        if canonicalize_name(wanted.name) == canonicalize_name(PROJECT["name"]):
            continue
        version = pinned[canonicalize_name(wanted.name)].partition(";")[0].strip()
        assert Version(version) in wanted.specifier, text
