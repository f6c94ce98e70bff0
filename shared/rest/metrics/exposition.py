"""The text that Prometheus reads, in both its formats.

Sources: https://prometheus.io/docs/instrumenting/exposition_formats/ and OpenMetrics 1.0,
https://prometheus.io/docs/specs/om/open_metrics_spec/. They differ in the name in the head of a counter, and the end.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


class Family(NamedTuple):
    """A metric with its samples, one for each set of labels. The name of a counter ends with ``_total``."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    samples: Sequence[tuple[Labels, float]]


def text(families: Iterable[Family], *, is_open_metrics: bool) -> str:
    """The exposition of these families; one without a sample is left out."""
    lines: list[str] = []
    for family in families:
        if family.samples:
            lines += _lines(family, is_open_metrics=is_open_metrics)
    if is_open_metrics:
        lines.append("# EOF")
    return "\n".join(lines) + "\n"


def _lines(family: Family, *, is_open_metrics: bool) -> Iterator[str]:
    head = family.name.removesuffix("_total") if is_open_metrics else family.name
    yield f"# HELP {head} {_escaped(family.help)}"
    yield f"# TYPE {head} {family.kind}"
    for labels, value in family.samples:
        named = ",".join(f'{name}="{_escaped(each)}"' for name, each in labels.items())
        yield f"{family.name}{{{named}}} {value}" if named else f"{family.name} {value}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
