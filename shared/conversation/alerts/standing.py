"""What is not well now, as troubles with a key that stays: the same causes as the operator's overview has.

No sentence holds text of people, or what a program or a model wrote: an alert may go to a place that others read.
"""

import shlex
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import apsw

from shared.channels import registry
from shared.conversation.access import channel_watch, health
from shared.conversation.alerts import causes
from shared.core.settings import Settings
from shared.core.time.durations import time_span
from shared.db.alerts import alert_facts
from shared.db.alerts.alert_facts import MOST_DEAD, DeadRows
from shared.db.alerts.alert_routes import PLACE, STUCK, WEBHOOK, AlertKind
from shared.db.alerts.alerts import Trouble
from shared.db.engine import meta, restore_proofs
from shared.db.platforms import channel_outages, channel_pauses, channel_watches
from shared.db.replica import replica_problems, replica_report
from shared.db.roster import accounts, agent_pauses
from shared.db.spending.settled_usage import SettledUsage
from shared.db.views import spending, why, why_sentences
from shared.db.views.why import MessageFacts, ResponseFacts
from shared.roster import alert_routes

_ITS_ERROR = "the page of the message has the text"


class Findings(NamedTuple):
    """What one look found.

    Attributes:
        unknown: the kinds of which it did not see everything.
        silent: the channels that send nothing now.
    """

    troubles: list[Trouble]
    unknown: Collection[AlertKind]
    silent: Collection[str]


def look(conn: apsw.Connection, settings: Settings, *, now_ms: int, settled: SettledUsage | None = None) -> Findings:
    """Look at the rows, the disk, and what the supervisor of replication reported."""
    silent = {*channel_pauses.every(conn), *channel_outages.every(conn)}
    webhook = _stuck_webhook(conn, settings, now_ms)
    dead, answers = alert_facts.dead_messages(conn), alert_facts.dead_answers(conn)
    found = [
        *_stuck(conn, settings, now_ms),
        *_stuck_answers(conn, settings, silent, now_ms),
        *webhook,
        *map(_dead, dead),
        *map(_unsent, answers),
        *_deaf(conn, settings, now_ms),
        *_behind(conn, settings, now_ms),
        *_money(conn, settings, settled, now_ms),
        *of_disk(settings.db.absolute(), shutil.disk_usage(settings.db.absolute().parent).free, now_ms=now_ms),
        *_paused(conn),
    ]
    is_cut = any(sum(each.number for each in rows) >= MOST_DEAD for rows in (dead, answers))
    return Findings(found, {"dead"} if is_cut else (), silent | {WEBHOOK} if webhook else silent)


def _stuck(conn: apsw.Connection, settings: Settings, now_ms: int) -> Iterator[Trouble]:
    for each in alert_facts.messages(conn, longest_ms=settings.stuck_after_ms, now_ms=now_ms):
        facts = why.message(conn, each.oldest, now_ms=now_ms)
        if facts is None or facts.status != "pending":
            continue
        facts = without_texts(facts)
        yield Trouble(
            f"stuck {each.name}",
            "stuck",
            f"Messages to agent {each.name} wait in {_count(each.places, 'conversation')}",
            f"Of the oldest: {why_sentences.of_message(facts, now_ms=now_ms).reason}",
            f"To see why each waits, type emulator why {facts.message_id}.",
            each.since,
            "message",
            facts.message_id,
        )


def without_texts(facts: MessageFacts) -> MessageFacts:
    """The same without what people, programs or models wrote."""
    return facts._replace(
        last_error=_ITS_ERROR,
        retrying_error=_ITS_ERROR,
        asks_what=_ITS_ERROR,
        pause=facts.pause and _ITS_ERROR,
        responses=[_without_texts(each) for each in facts.responses],
    )


def _without_texts(facts: ResponseFacts) -> ResponseFacts:
    return facts._replace(last_error=_ITS_ERROR, pause=facts.pause and _ITS_ERROR)


def _stuck_answers(
    conn: apsw.Connection, settings: Settings, silent: Collection[str], now_ms: int
) -> Iterator[Trouble]:
    """Of channels that send: why the others do not is a trouble of its own."""
    channels = [each for each in accounts.served(conn, registry.PLATFORMS) if each not in silent]
    for each in alert_facts.answers(conn, channels, longest_ms=settings.stuck_after_ms, now_ms=now_ms):
        facts = why.response(conn, each.oldest, now_ms=now_ms)
        if facts is None or facts.status != "pending":
            continue
        facts = _without_texts(facts)
        yield Trouble(
            f"stuck answers {each.name}",
            "stuck",
            f"Answers wait in {_count(each.places, 'chat')} of {each.name}",
            f"Of the oldest: {why_sentences.of_response(facts, now_ms=now_ms).reason}",
            f"To see it, type emulator responses show {facts.id}.",
            each.since,
            "queue",
            "sending",
            each.name,
        )


def _stuck_webhook(conn: apsw.Connection, settings: Settings, now_ms: int) -> list[Trouble]:
    """The webhook of alerts has not taken one for so long, or sweep does not know it: another route says so."""
    missing = alert_routes.lacking(conn, settings)
    waiting = alert_facts.waiting_posts(conn, WEBHOOK, PLACE, limit=1)
    if missing is not None:
        why_ = f"Process sweep has no {missing}; what it is to post waits."
        remedy = "Give it POSTROOM_ALERT_URL and POSTROOM_ALERT_SECRET, and restart it."
    elif waiting and waiting[0].created_at <= now_ms - settings.stuck_after_ms:
        why_ = "Each is posted again every minute, and the log of sweep has the reason."
        remedy = "Look at the address of POSTROOM_ALERT_URL."
    else:
        return []
    since = waiting[0].created_at if waiting else now_ms
    what = "The webhook of alerts takes none"
    return [Trouble(STUCK, "stuck", what, why_, remedy, since, channel=WEBHOOK)]


def _dead(of: DeadRows) -> Trouble:
    return Trouble(
        f"dead {of.agent} {of.failure}",
        "dead",
        f"{_many(of.number, 'message')} to agent {of.agent} {'is' if of.number == 1 else 'are'} dead",
        f"{causes.of_attempt(of.failure)} Nothing is tried again by itself.",
        "Retry or discard them: emulator messages list.",
        of.since,
        "queue",
        "dead",
        latest=of.latest,
    )


def _unsent(of: DeadRows) -> Trouble:
    whose = f" of agent {of.agent}" if of.agent else ""
    return Trouble(
        f"unsent {of.agent} {of.failure}",
        "dead",
        f"{_many(of.number, 'answer')}{whose} could not be sent",
        f"{causes.of_send(of.failure)} Nothing is tried again by itself.",
        "Send them again or discard them: emulator responses list.",
        of.since,
        "queue",
        "unsent",
        latest=of.latest,
    )


def _deaf(conn: apsw.Connection, settings: Settings, now_ms: int) -> Iterator[Trouble]:
    """Channels that receive nothing, that the platform refused, or whose platform has not worked for a while."""
    for watch in channel_watches.deaf(conn):
        what = "does not receive everything" if watch.code == "kinds_missing" else "receives nothing"
        yield Trouble(
            f"deaf {watch.channel}",
            "deaf",
            f"{watch.channel} {what}",
            _sentence(watch.reason or "the platform does not say why"),
            f"To fix it: {channel_watch.mend(watch)}.",
            watch.since,
            channel=watch.channel,
        )
    for pause in channel_pauses.every(conn).values():
        yield Trouble(
            f"refused {pause.channel}",
            "deaf",
            f"{pause.channel} is paused, and its answers wait",
            _sentence(pause.reason),
            "Set the correct token and restart; nothing is lost.",
            pause.paused_at,
            channel=pause.channel,
        )
    for outage in channel_outages.every(conn).values():
        if now_ms - outage.began_at >= settings.stuck_after_ms:
            yield Trouble(
                f"outage {outage.channel}",
                "deaf",
                f"{outage.channel} can't send, and its answers wait",
                _sentence(outage.reason),
                "Postroom tries again by itself; check the platform, or the network to it.",
                outage.began_at,
                "queue",
                "sending",
                outage.channel,
            )


def _behind(conn: apsw.Connection, settings: Settings, now_ms: int) -> Iterator[Trouble]:
    report = replica_report.read(settings.db)
    if report is None:  # nothing replicates here, or the supervisor has not begun
        return
    if report.behind_since is None and 0 <= now_ms - report.counting_since < settings.stuck_after_ms:
        return  # it has just begun, and makes a first full copy
    proven = restore_proofs.last_proven(conn)
    problems = replica_problems.problems(report, restore_proofs.newest(conn), None, now_ms=now_ms)
    began_at = meta.began_at(conn)
    if replica_problems.is_overdue(proven, report.verify_every_ms, began_at=began_at, now_ms=now_ms):
        problems.append(replica_problems.overdue_sentence(proven, report.verify_every_ms, now_ms=now_ms))
    if problems:
        yield Trouble(
            "behind",
            "behind",
            "The replica is not as it should be",
            _sentence(problems[0]),
            "To see more, type emulator replica status.",
            report.behind_since or min(report.at, now_ms),
            "replica",
        )


def _money(conn: apsw.Connection, settings: Settings, settled: SettledUsage | None, now_ms: int) -> Iterator[Trouble]:
    for budget in spending.all_budgets(conn, settings.timezone, now_ms=now_ms, settled=settled):
        if budget["spent"] >= budget["amount"] + budget["extra"]:
            agent, period, unit = budget["agent"], budget["period"], budget["unit"]
            need = health.used_up(agent, period, unit)
            whose = "of all agents" if agent is None else f"of agent {agent}"
            yield Trouble(
                f"budget {agent} {period} {unit}",
                "money",
                f"The budget in {unit} {whose} for this {period} is used up",
                f"What waits continues in {time_span(budget['until'] - now_ms)}, or when you give more.",
                f"{need.then}: {need.command}.",
                now_ms,
                "agents",
            )


def of_disk(path: Path, free: int, *, now_ms: int) -> Iterator[Trouble]:
    """What is not well with the disk of the database at *path*; *free*: bytes. Pure."""
    found = health.of_disk(path, free)
    for sentence in found.stops + found.needs:
        what, _, remedy = sentence.partition(". ")
        full, _, why_ = what.partition(": ")
        where = "The disk of the database is full" if found.stops else "The disk of the database is filling"
        yield Trouble("disk", "disk", where, f"{full}, and {why_}.", f"{remedy}.", now_ms)


def _paused(conn: apsw.Connection) -> Iterator[Trouble]:
    """Agents that Postroom paused, but for a budget, which is a trouble of its own."""
    for pause in agent_pauses.paused(conn).values():
        if pause.paused_by == "postroom" and pause.code != "budget":
            yield Trouble(
                f"paused {pause.agent}",
                "paused",
                f"Agent {pause.agent} is paused, and its messages wait",
                f"{causes.of_attempt(pause.code)} They wait in order, and lose no attempt.",
                f"When it is fixed: emulator agents resume {shlex.quote(pause.agent)}.",
                pause.since,
                "agents",
            )


def _sentence(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:].rstrip('.')}."


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number:,} {what}s"


def _many(number: int, what: str) -> str:
    return f"{MOST_DEAD:,} {what}s or more" if number >= MOST_DEAD else _count(number, what)
