"""The texts of alerts: what, where, since when, why, what to do, and a link. Pure."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from shared.conversation.access import cards
from shared.conversation.alerts.decide import News, Saying
from shared.core.page_links import link
from shared.core.time.durations import time_span
from shared.db.alerts.alert_routes import WEBHOOK
from shared.db.alerts.alerts import Alert
from shared.db.views import why_sentences
from shared.db.views.why import ResponseFacts
from shared.db.views.why_sentences import Why

MOST_LINES = 20  # of a digest
_CALLED = {"began": "problem", "again": "problem", "ended": "over", "passed": "over"}


def text(saying: Saying, *, public_url: str, timezone: str, is_markdown: bool) -> str:
    """What the message says, as Markdown or as plain text."""
    return "\n".join(_line(*each, is_markdown=is_markdown) for each in _lines(saying, public_url, timezone))


def delivery(notice: ResponseFacts | None, *, now_ms: int) -> Why:
    """How the message of an alert stands; None: its row is deleted."""
    if notice is None or notice.status == "deleted":
        return Why("gone", "The message of the alert is deleted.")
    if notice.channel == WEBHOOK and notice.status == "pending":
        reason = f"The alert, response {notice.id}, is posted to the webhook each minute until the webhook takes it."
        return Why("answer_retry", reason)
    return why_sentences.of_response(notice, now_ms=now_ms, called="The alert")


def _lines(saying: Saying, public_url: str, timezone: str) -> list[tuple[str, str]]:
    """Each line, and the address behind it; empty where there is none."""
    overview = link(public_url, "overview")
    if saying.form == "one":
        return [_one(saying.news[0], public_url, timezone)]
    if saying.form == "number":
        return [(_number(saying.news), overview)]
    shown = [(f"- {_one(each, '', timezone)[0]}", "") for each in saying.news[:MOST_LINES]]
    left = len(saying.news) - len(shown)
    more = [(f"- {left:,} more.", "")] if left else []
    return [(f"Digest of {_alerts(len(saying.news))}:", ""), *shown, *more, *([("", overview)] if overview else [])]


def _line(said: str, address: str, *, is_markdown: bool) -> str:
    if is_markdown:
        said, address = cards.escape(said), address and f"<{address}>"
    return " ".join(filter(None, (said, address)))


def _one(news: News, public_url: str, timezone: str) -> tuple[str, str]:
    alert = news.alert
    trouble = alert.trouble
    if news.phase in ("began", "again"):
        again = f", and again at {_instant(news.at, timezone)}" if news.phase == "again" else ""
        said = f"{trouble.what}, since {_instant(trouble.since, timezone)}{again}. {trouble.why} {trouble.remedy}"
        return said, link(public_url, trouble.page, trouble.page_id)
    stood = f"it lasted {time_span(_over_at(alert) - trouble.since)}"
    return f"Over since {_instant(_over_at(alert), timezone)}: {trouble.what} ({stood}).", ""


def _over_at(alert: Alert) -> int:
    """The first look that did not find it tells its end, not the look that is sure."""
    return alert.gone_at or alert.over_at or alert.noticed_at


def _number(news: Sequence[News]) -> str:
    counts = Counter((_CALLED[each.phase], each.alert.trouble.kind) for each in news)
    parts = [f"{number:,} {kind} ({state})" for (state, kind), number in counts.items()]
    return f"{len(news):,} more: {', '.join(parts)}."


def _alerts(number: int) -> str:
    return "1 alert" if number == 1 else f"{number:,} alerts"


def _instant(at_ms: int, timezone: str) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, ZoneInfo(timezone)):%Y-%m-%d %H:%M} ({timezone})"
