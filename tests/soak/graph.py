"""The hours of a soak as one SVG: a small plot for each figure, on one axis of hours, for light and dark pages."""

from collections.abc import Mapping, Sequence
from html import escape

from tests.soak.trend import Figure, Trend

_WIDTH, _HEIGHT, _COLUMNS = 360, 150, 2
_LEFT, _TOP, _PLOT_W, _PLOT_H = 12, 44, 336, 80
_STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #57606a }
  .title { font-weight: 600; fill: #24292f }
  .line { fill: none; stroke: #0969da; stroke-width: 2; stroke-linejoin: round }
  .warm { fill: #8c959f; opacity: .15 }
  .base { stroke: #8c959f; stroke-width: 1 }
  .grows { fill: #cf222e }
  @media (prefers-color-scheme: dark) {
    text { fill: #8b949e } .title { fill: #e6edf3 } .line { stroke: #4493f8 } .grows { fill: #ff7b72 }
  }
"""


Values = Mapping[str, Sequence[float]]


def draw(values: Values, figures: Sequence[Figure], trends: Mapping[str, Trend], skip: int) -> str:
    """The picture; the grey part of each plot does not count."""
    rows = -(-len(figures) // _COLUMNS)
    panels = [
        f'<g transform="translate({index % _COLUMNS * _WIDTH} {index // _COLUMNS * _HEIGHT})">'
        f"{_panel(values[figure.key], figure, trends[figure.key], skip)}</g>"
        for index, figure in enumerate(figures)
    ]
    size = f'width="{_COLUMNS * _WIDTH}" height="{rows * _HEIGHT}" viewBox="0 0 {_COLUMNS * _WIDTH} {rows * _HEIGHT}"'
    inside = "\n".join(panels)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<style>{_STYLE}</style>\n{inside}\n</svg>\n'


def _panel(values: Sequence[float], figure: Figure, trend: Trend, skip: int) -> str:
    top = max(*values, 1e-9) * 1.15
    hours = max(1, len(values) - 1)
    points = [(_LEFT + _PLOT_W * hour / hours, _TOP + _PLOT_H * (1 - value / top)) for hour, value in enumerate(values)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    warm = _PLOT_W * min(skip, hours) / hours
    verdict = "" if not figure.is_judged else "flat" if trend.is_flat else "GROWS"
    kind = ' class="grows"' if verdict == "GROWS" else ""
    base = _TOP + _PLOT_H
    ends = f"{_said(trend.first, figure)} at hour {skip + 1}, {_said(trend.last, figure)} at the end"
    return (
        f'<text x="{_LEFT}" y="18" class="title">{escape(figure.title)}</text>'
        f'<text x="{_LEFT + _PLOT_W}" y="18" text-anchor="end"{kind}>{verdict}</text>'
        f'<text x="{_LEFT}" y="36">{ends}</text>'
        f'<rect class="warm" x="{_LEFT}" y="{_TOP}" width="{warm:.1f}" height="{_PLOT_H}"/>'
        f'<line class="base" x1="{_LEFT}" y1="{base}" x2="{_LEFT + _PLOT_W}" y2="{base}"/>'
        f'<polyline class="line" points="{line}"/>'
        f'<text x="{_LEFT}" y="{base + 15}">0</text>'
        f'<text x="{_LEFT + _PLOT_W}" y="{base + 15}" text-anchor="end">hour {len(values)}</text>'
    )


def _said(value: float, figure: Figure) -> str:
    digits = 0 if value >= 100 or value == int(value) else 1
    return f"{value:,.{digits}f} {figure.unit}".strip()
