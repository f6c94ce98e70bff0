"""Which route sends what now: pure decisions from the alerts, and from what each route was told about them.

Each route that takes an alert's kind gets it once, and once more when it is over. If it goes on to kill messages, it is
sent again, after an hour at the earliest. Four things delay a message:

- *quiet hours*: alerts that are not urgent, and all ends, wait until the quiet hours are over, and come as one digest;
- a *digest*: alerts that are not urgent come together, at the interval of the route;
- a *storm*: after ``MOST`` messages in ten minutes, one more counts the rest, and then they wait;
- a *silent channel*: another route sends it, if one can; else it waits.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from shared.core.time import hours
from shared.core.time.periods import Period
from shared.db.alerts.alert_routes import AlertRoute
from shared.db.alerts.alerts import Alert
from shared.db.alerts.tellings import AlertTelling

MOST = 5  # messages to one route in STORM_MS, of which the last counts what is left
STORM_MS = 10 * 60_000

AGAIN_MS = 60 * 60_000  # after a route was told, before it is told that the thing happened again

Phase = Literal["began", "again", "ended", "passed"]
"""Why it is sent: the alert began; it happened again; it ended; it began and ended before anybody was told."""


class News(NamedTuple):
    """One alert for one route to send. *duties*: the routes that are informed by it."""

    alert: Alert
    phase: Phase
    duties: tuple[str, ...]

    @property
    def at(self) -> int:
        """Since when it could be sent."""
        if self.phase == "again":
            return self.alert.trouble.latest or 0
        return self.alert.noticed_at if self.phase == "began" else self.alert.over_at or 0


class Saying(NamedTuple):
    """One message of one route. *form*: one thing, the number of many, or a digest."""

    route: str
    form: Literal["one", "number", "digest"]
    news: tuple[News, ...]


def plan(
    routes: Sequence[AlertRoute],
    alerts: Sequence[Alert],
    tellings: Iterable[AlertTelling],
    *,
    silent: Collection[str],
    said: Mapping[str, int],
    timezone: str,
    now_ms: int,
) -> list[Saying]:
    """The messages to send now, in order.

    Args:
        alerts: those that are not over, and those that ended lately.
        silent: the routes that can't send now.
        said: how many messages each route got in the last ``STORM_MS``.
        timezone: of the hours of a route without its own.
    """
    told = {(each.alert_id, each.route): each for each in tellings}
    waiting: dict[str, list[News]] = {}
    for alert in sorted(alerts, key=lambda each: (each.over_at or each.noticed_at, each.id)):
        for speaker, phase, route in _duties(routes, alert, told, silent):
            _add(waiting.setdefault(speaker, []), alert, phase, route)
    return [
        saying
        for route in routes
        if (news := waiting.get(route.name))
        for saying in _sayings(route, news, said.get(route.name, 0), route.timezone or timezone, now_ms)
    ]


def _duties(
    routes: Sequence[AlertRoute], alert: Alert, told: Mapping[tuple[int, str], AlertTelling], silent: Collection[str]
) -> Iterable[tuple[str, Phase, str]]:
    """For each route that has to be informed: which route sends, and what."""
    for route in routes:
        telling = told.get((alert.id, route.name))
        phase = _phase(route, alert, telling)
        if phase is None:
            continue
        first = telling.said_by if telling is not None else route.name
        speaker = _speaker(routes, alert, first, route.name, silent)
        if speaker is not None:
            yield speaker, phase, route.name


def _phase(route: AlertRoute, alert: Alert, telling: AlertTelling | None) -> Phase | None:
    if telling is not None and alert.over_at is None:
        is_told = alert.gone_at is not None or (alert.trouble.latest or 0) - telling.told_at <= AGAIN_MS
        return None if is_told else "again"
    if telling is not None:
        return "ended" if telling.over_told_at is None else None
    if not route.takes(alert.trouble.kind):
        return None
    if alert.over_at is None:
        return None if alert.gone_at is not None else "began"
    return "passed" if alert.over_at > route.updated_at else None


def _speaker(routes: Sequence[AlertRoute], alert: Alert, first: str, own: str, silent: Collection[str]) -> str | None:
    """The first of these that can send: the route that sent it before, its own, one that takes the kind, any."""
    can_send = [route for route in routes if route.name not in silent]
    takes = [route.name for route in can_send if route.takes(alert.trouble.kind)]
    names = {route.name for route in can_send}
    return next((name for name in (first, own, *takes, *sorted(names)) if name in names), None)


def _add(news: list[News], alert: Alert, phase: Phase, route: str) -> None:
    """Two routes with one sending route are informed by the same message."""
    for at, other in enumerate(news):
        if other.alert.id == alert.id and other.phase == phase:
            news[at] = other._replace(duties=(*other.duties, route))
            return
    news.append(News(alert, phase, (route,)))


def _sayings(route: AlertRoute, news: Sequence[News], said: int, timezone: str, now_ms: int) -> Iterable[Saying]:
    quiet = hours.latest(route.quiet_hours, now_ms, timezone) if route.quiet_hours else None
    urgent = [each for each in news if each.phase in ("began", "again") and each.alert.trouble.kind in route.urgent]
    rest = [each for each in news if each not in urgent]
    if quiet is not None and now_ms < quiet.end_ms:
        return _few(route, urgent, said)
    waited = [each for each in rest if quiet is not None and _is_of(quiet, each)]
    if route.digest_ms is not None:
        since_ms = now_ms - max(route.digest_at or 0, route.updated_at)
        is_due = bool(waited) or not 0 <= since_ms < route.digest_ms  # below 0: the clock was set back
        return [*_digest(route, rest if is_due else ()), *_few(route, urgent, said)]
    alone = [each for each in news if each not in waited]
    return [*_digest(route, waited), *_few(route, alone, said + bool(waited))]


def _digest(route: AlertRoute, news: Sequence[News]) -> list[Saying]:
    return [Saying(route.name, "digest", tuple(news))] if news else []


def _is_of(quiet: Period, news: News) -> bool:
    """Whether it has waited until the quiet hours were over."""
    return quiet.start_ms <= news.at < quiet.end_ms


def _few(route: AlertRoute, news: Sequence[News], said: int) -> list[Saying]:
    """A message for each, as long as they are few; then one that counts the rest."""
    room = MOST - said
    if len(news) > room:
        alone, rest = news[: max(0, room - 1)], news[max(0, room - 1) :]
        numbers = [Saying(route.name, "number", tuple(rest))] if room > 0 else []
        return [*(Saying(route.name, "one", (each,)) for each in alone), *numbers]
    return [Saying(route.name, "one", (each,)) for each in news]
