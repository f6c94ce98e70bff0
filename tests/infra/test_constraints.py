"""The versions of libraries that the image and `make` install: each of them has exactly one, and none is left over."""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from itertools import chain

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.infra.processes import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
BUILDS = {"setuptools", "wheel"}  # pip fetches them to build a library that has no wheel
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


def _all_of(names: set[str]) -> Iterator[tuple[str, str]]:
    """These libraries, as they are installed here, and each that one of them names: its name and its version."""
    seen: set[str] = set()
    while names - seen:
        name = (names - seen).pop()
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue  # for another Python or another system
        yield name, found.version
        wanted = [Requirement(each) for each in found.requires or ()]
        names |= {canonicalize_name(each.name) for each in wanted if "extra ==" not in str(each.marker)}


def _named_by_the_project() -> set[str]:
    texts = (*PROJECT["dependencies"], *chain.from_iterable(PROJECT["optional-dependencies"].values()))
    wanted = [Requirement(text) for text in texts]
    of_extras = [
        Requirement(each)
        for one in wanted
        for each in distribution(one.name).requires or ()
        if any(
            Requirement(each).marker is not None and Requirement(each).marker.evaluate({"extra": extra})
            for extra in one.extras
        )
    ]
    return {canonicalize_name(each.name) for each in (*wanted, *of_extras)}


def test_what_is_installed_is_what_the_lines_name_and_no_line_is_left_over():
    installed = dict(_all_of(_named_by_the_project()))
    pinned = {canonicalize_name(line.partition("==")[0]): line.partition("==")[2] for line in LINES}
    assert {name: version for name, version in installed.items() if pinned.get(name) != version} == {}
    assert set(pinned) - set(installed) == BUILDS
