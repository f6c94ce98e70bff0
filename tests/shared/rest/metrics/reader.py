"""Reads what ``GET /metrics`` prints, as strictly as the formats are written."""

import re
from typing import NamedTuple

_NAME = r"[a-z_][a-z0-9_]*"
_LABEL = rf'({_NAME})="((?:[^"\\\n]|\\[\\"n])*)"'
_SAMPLE = re.compile(rf"({_NAME})(?:\{{({_LABEL}(?:,{_LABEL})*)\}})? (-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)")
_UNITS = ("seconds", "bytes", "dollars", "tokens")
Labels = tuple[tuple[str, str], ...]


class Read(NamedTuple):
    """The families by name, each with its type; and the samples."""

    kinds: dict[str, str]
    values: dict[tuple[str, Labels], float]

    def of(self, name: str, **labels: str) -> float:
        """The value of one series."""
        return self.values[name, tuple(sorted(labels.items()))]

    def series(self, name: str) -> list[dict[str, str]]:
        """The labels of each series."""
        return [dict(labels) for found, labels in self.values if found == name]


def read(text: str, *, is_open_metrics: bool = False) -> Read:
    """What the text says; an ``AssertionError`` where the format forbids it."""
    assert text.endswith("\n")
    lines = text.splitlines()
    if is_open_metrics:
        assert lines.pop() == "# EOF"
    kinds: dict[str, str] = {}
    values: dict[tuple[str, Labels], float] = {}
    now = ""
    for number, line in enumerate(lines):
        if line.startswith("# HELP "):
            now = line.split()[2]
            assert now not in kinds, f"a family comes twice: {line}"
            assert line.split(None, 3)[3].endswith("."), line
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert (name, lines[number - 1].split()[2]) == (now, now), line
            kinds[name] = kind
        else:
            match = _SAMPLE.fullmatch(line)
            assert match, line
            labels = tuple(sorted((label, value) for label, value in re.findall(_LABEL, match[2] or "")))
            name = match[1]
            _check(name, now, kinds[now], float(match[match.re.groups]), is_open_metrics=is_open_metrics)
            assert (name, labels) not in values, f"a series comes twice: {line}"
            values[name, labels] = float(match[match.re.groups])
    return Read(kinds, values)


def _check(name: str, family: str, kind: str, value: float, *, is_open_metrics: bool) -> None:
    assert name == (f"{family}_total" if is_open_metrics and kind == "counter" else family)
    assert name.startswith("postroom_")
    assert name.endswith("_total") == (kind == "counter")
    assert kind != "counter" or value >= 0
    words = name.removesuffix("_total").split("_")
    assert not set(_UNITS) & set(words[:-1]), f"the unit of {name} stands at its end"
