"""The geometry of the graph of agents: they stand on an ellipse, and bent arrows lead from one to the other."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_jobs.report.words import name, plural

WIDTH, HEIGHT = 560, 340
MOST_AGENTS = 12
MOST_ARROWS = 40
_ACROSS, _DOWN = 125, 120
_GAP = 16
"""Between the end of an arrow and the middle of an agent."""
_LONGEST_NAME = 12
"""As many have room beside an agent, on a phone too; the table has the whole names."""


@dataclass(frozen=True, slots=True)
class AgentSpot:
    """One agent; its label is beside it, and *anchor* says on which side."""

    x: float
    y: float
    label: str
    label_x: float
    label_y: float
    anchor: str


@dataclass(frozen=True, slots=True)
class Arrow:
    """Messages from one agent to another: a path, the pixels of its width, and what it says."""

    path: str
    width: float
    says: str


@dataclass(frozen=True, slots=True)
class Graph:
    """What is drawn, and how many agents and pairs were left out."""

    says: str
    nodes: tuple[AgentSpot, ...]
    arrows: tuple[Arrow, ...]
    left_out: int


def graph(messages: Mapping[tuple[str, str], int]) -> Graph:
    """The graph of *messages* by (from, to): the agents with the most messages, and the most used ways."""
    weight: dict[str, int] = {}
    for pair, count in messages.items():
        for agent in set(pair):
            weight[agent] = weight.get(agent, 0) + count
    agents = sorted(sorted(weight, key=lambda agent: (-weight[agent], agent))[:MOST_AGENTS])
    places = {agent: _place(index, len(agents)) for index, agent in enumerate(agents)}
    ways = [pair for pair in messages if pair[0] in places and pair[1] in places]
    ways = sorted(ways, key=lambda pair: (-messages[pair], pair))[:MOST_ARROWS]
    most = max(messages.values(), default=1)
    arrows = tuple(_arrow(places, way, messages[way], most) for way in ways)
    nodes = tuple(_node(agent, *places[agent]) for agent in agents)
    return Graph(_said(messages), nodes, arrows, len(messages) - len(ways))


def _place(index: int, count: int) -> tuple[float, float]:
    angle = 2 * math.pi * index / count - math.pi / 2
    return WIDTH / 2 + _ACROSS * math.cos(angle), HEIGHT / 2 + _DOWN * math.sin(angle)


def _node(agent: str, x: float, y: float) -> AgentSpot:
    label, across = name(agent, _LONGEST_NAME), x - WIDTH / 2
    if abs(across) < _ACROSS / 4:
        label_y = y + (26 if y > HEIGHT / 2 else -14)
        return AgentSpot(round(x, 1), round(y, 1), label, round(x, 1), round(label_y, 1), "middle")
    side = 13 if across > 0 else -13
    return AgentSpot(
        round(x, 1), round(y, 1), label, round(x + side, 1), round(y + 5, 1), "start" if side > 0 else "end"
    )


def _arrow(places: Mapping[str, tuple[float, float]], way: tuple[str, str], count: int, most: int) -> Arrow:
    (x1, y1), (x2, y2) = places[way[0]], places[way[1]]
    says = f"{name(way[0])} to {name(way[1])}: {plural(count, 'message')}"
    width = round(1.5 + 4.5 * math.sqrt(count / most), 1)
    if way[0] == way[1]:
        return Arrow(f"M{x1 - 7:.1f} {y1 - 9:.1f}c-26 -40 40 -40 15 0", width, says)
    bend_x, bend_y = (x1 + x2) / 2 - (y2 - y1) * 0.16, (y1 + y2) / 2 + (x2 - x1) * 0.16
    begin, end = _nearer((x1, y1), (bend_x, bend_y)), _nearer((x2, y2), (bend_x, bend_y))
    path = f"M{begin[0]:.1f} {begin[1]:.1f}Q{bend_x:.1f} {bend_y:.1f} {end[0]:.1f} {end[1]:.1f}"
    return Arrow(path, width, says)


def _nearer(point: tuple[float, float], to: tuple[float, float]) -> tuple[float, float]:
    length = math.dist(point, to) or 1
    share = _GAP / length
    return point[0] + (to[0] - point[0]) * share, point[1] + (to[1] - point[1]) * share


def _said(messages: Mapping[tuple[str, str], int]) -> str:
    ways: Sequence[tuple[str, str]] = sorted(messages, key=lambda pair: (-messages[pair], pair))[:3]
    told = "; ".join(f"{name(a)} to {name(b)}: {plural(messages[a, b], 'message')}" for a, b in ways)
    return f"Which agents write to which. {told}."
