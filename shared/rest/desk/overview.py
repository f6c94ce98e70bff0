"""The overview of the operator's page: one sentence, what needs a person, what recovers by itself, and the books.

What is wrong comes from the same place as ``GET /api/health``; here a cause has its button as well.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal
from urllib.parse import quote

import apsw
from starlette.requests import Request
from typing_extensions import TypedDict

from shared.conversation.access import channel_watch, health
from shared.conversation.alerts import faults_by_hand
from shared.core.settings import Settings
from shared.core.time import clock, periods
from shared.db.platforms import channel_outages
from shared.db.roster import agent_pauses
from shared.db.roster.agent_pauses import AgentPause
from shared.db.spending.settled_usage import SettledUsage
from shared.db.views import books, spending, troubles
from shared.db.views.books import Books
from shared.db.views.spending import BudgetView
from shared.db.views.troubles import DeadGroup
from shared.rest.http.endpoint import endpoint
from shared.rest.http.service import Service
from shared.rest.resources.health import HealthView, get_health

_KEPT_MARGIN_MS = 3_600_000  # sweep deletes what ended as long ago as the retention

Mark = Literal["stop", "paused", "dead", "unknown", "ask", "warn", "wait"]


class Act(TypedDict):
    """A button: the requests that it sends, one after the other."""

    label: str
    method: Literal["POST", "DELETE"]
    paths: list[str]
    body: dict[str, Any] | None


class Item(TypedDict):
    """One cause. *title* and *why* are sentences; *until*: when it ends by itself, *since*: when it began, ms UTC.

    *key* stays the same while the cause does. *link*: the place on the page where its rows are.
    """

    key: str
    mark: Mark
    title: str
    why: str
    count: int
    since: int | None
    until: int | None
    link: str | None
    acts: list[Act]


class Numbers(TypedDict):
    """How many messages wait (and for what), run and are dead; *sending*: answers on their way. *oldest*: ms UTC."""

    waiting: int
    planned: int
    paused: int
    retrying: int
    due: int
    running: int
    dead: int
    deadAnswers: int
    sending: int
    approvals: int
    oldest: int | None
    oldestAgent: str | None


class Overview(TypedDict):
    """*sentence*: all of it in one; *at*: of the reading, ms UTC."""

    at: int
    sentence: str
    more: str
    needsYou: list[Item]
    mendsItself: list[Item]
    numbers: Numbers
    books: Books


@endpoint("GET", "/api/overview", {503: "too many long reads run at once: try again later"})
async def get_overview(service: Service, *, request: Request) -> Overview:
    """Read what needs a person, what recovers by itself, and the books of the day. It may be two seconds old."""

    async def read() -> tuple[Overview, float]:
        now_ms = service.now_ms()
        said = await get_health.run(service)
        settled = service.settled_usage
        is_past = service.past is not None
        rows = partial(_read, settings=service.settings, said=said, settled=settled, is_past=is_past, now_ms=now_ms)
        return await service.background_reads.read(lambda conn: _timed(rows, conn), request.receive)

    found: Overview = await service.overview.get(read, now_ms=clock.now_ms())
    return found


def _timed(read: Callable[[apsw.Connection], Overview], conn: apsw.Connection) -> tuple[Overview, float]:
    begun_s = time.thread_time()
    return read(conn), time.thread_time() - begun_s


def _read(
    conn: apsw.Connection,
    *,
    settings: Settings,
    said: HealthView,
    settled: SettledUsage,
    is_past: bool,
    now_ms: int,
) -> Overview:
    pauses = agent_pauses.paused(conn)
    stands = troubles.waiting(conn, set(pauses), now_ms)
    dead, unsent = troubles.dead_messages(conn), troubles.dead_answers(conn)
    asked = troubles.pending_approvals(conn)
    needs = [
        *_stops(said["notReady"]),
        *_paused(pauses.values(), health.by_hand(conn, now_ms)),
        *_dead(dead),
        *_unsent(unsent),
        *_asked(asked),
    ]
    used_up = _used_up(conn, settings, settled, now_ms)
    needs += _budgets(used_up)
    known = {str(health.paused(each.agent, each.code, each.reason)) for each in pauses.values()}
    known |= {str(health.used_up(each["agent"], each["period"], each["unit"])) for each in used_up}
    known |= set(health.of_dead(conn))
    set_faults = [each for each in said["asWanted"] if each.startswith(faults_by_hand.BEGIN)]
    mends = [*_set_faults(set_faults), *_outages(conn), *_retrying(conn, now_ms), *_silent(conn, now_ms)]
    items = [f"agent {agent} is paused by hand" for agent in pauses]  # the count may be that of another moment
    outages = [each["key"].removeprefix("outage ") for each in mends if each["key"].startswith("outage ")]
    items += [f"{channel} can't send" for channel in outages]
    needs += [
        _item(f"said {sentence}", "warn", *_parted(sentence))
        for sentence in [*said["needsYou"], *(channel_watch.troubles(conn) if is_past else ())]
        if sentence not in known and not sentence.startswith(tuple(items))
    ]
    start_ms = periods.containing("day", now_ms, settings.timezone).start_ms
    account = books.read(conn, max(start_ms, now_ms - settings.history_retention_ms + _KEPT_MARGIN_MS))
    if not account["balance"]:
        needs.insert(0, _unbalanced(account))
    return {
        "at": now_ms,
        "sentence": _sentence(len(needs)),
        "more": _more(len(mends), has_needs=bool(needs)),
        "needsYou": needs,
        "mendsItself": mends,
        "numbers": {
            "waiting": stands.total,
            "planned": stands.planned,
            "paused": stands.paused,
            "retrying": stands.retrying,
            "due": stands.due,
            "running": stands.running,
            "dead": sum(each.number for each in dead),
            "deadAnswers": sum(each.number for each in unsent),
            "sending": troubles.open_answers(conn),
            "approvals": asked,
            "oldest": stands.oldest_ms,
            "oldestAgent": stands.oldest_agent,
        },
        "books": account,
    }


_WORDS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")


def _number(count: int) -> str:
    return _WORDS[count] if count < len(_WORDS) else f"{count:,}"


def _sentence(needs: int) -> str:
    if not needs:
        return "No problems."
    return f"{_number(needs)} thing{' needs' if needs == 1 else 's need'} you."


def _more(mends: int, *, has_needs: bool) -> str:
    if not mends:
        return "Everything else is moving." if has_needs else "Nothing waits for a person."
    rest = "Everything else is moving." if has_needs else "Nothing needs you."
    return f"{_number(mends)} {'recovers by itself' if mends == 1 else 'recover by themselves'}. {rest}"


def _item(key: str, mark: Mark, title: str, why: str, count: int = 1, **more: Any) -> Item:
    item: Item = {
        "key": key,
        "mark": mark,
        "title": title,
        "why": why,
        "count": count,
        "since": None,
        "until": None,
        "link": None,
        "acts": [],
    }
    item.update(more)  # type: ignore[typeddict-item]  # some of its own fields
    return item


def _parted(sentence: str) -> tuple[str, str]:
    """The thing, and the rest of the sentence behind its first colon or full stop."""
    for mark in (". ", ": "):
        title, found, rest = sentence.partition(mark)
        if found and len(title) <= 120:
            return title, rest[:1].upper() + rest[1:]
    return sentence, ""


def _act(label: str, *paths: str, body: dict[str, Any] | None = None) -> Act:
    return {"label": label, "method": "POST", "paths": list(paths), "body": body}


def _set_faults(sentences: Iterable[str]) -> Iterator[Item]:
    """The faults that somebody set in an emulator: what follows from them is no news."""
    for sentence in sentences:
        what, _, how = sentence.removeprefix(faults_by_hand.BEGIN).partition(". ")
        yield _item(f"fault {what}", "wait", "A fault is set by hand", f"{what[:1].upper()}{what[1:]}. {how}.")


def _stops(sentences: Sequence[str]) -> Iterator[Item]:
    for sentence in sentences:
        yield _item(f"stop {sentence[:60]}", "stop", *_parted(sentence))


def _paused(pauses: Iterable[AgentPause], by_hand: Mapping[str, int]) -> Iterator[Item]:
    """Agents that Postroom paused, but for a budget, and those that an operator paused while messages wait for them."""
    for pause in pauses:
        count = by_hand.get(pause.agent)
        if count != 0 and pause.code != "budget":
            behind = "Its messages wait" if count is None else health.waits(count)
            yield _item(
                f"paused {pause.agent}",
                "paused",
                f"Agent {pause.agent} is paused" + ("" if count is None else " by hand"),
                f"{_sentence_of(pause.reason)} {behind} in order, and no attempt is lost.",
                since=pause.since,
                until=pause.until,
                link=f"#/queue/waiting?agent={quote(pause.agent)}",
                acts=[_act("Resume", f"/api/agents/{quote(pause.agent)}/resume")],
            )


def _dead(groups: Sequence[DeadGroup]) -> Iterator[Item]:
    for group in groups:
        many = group.number != 1
        retries = [f"/api/queue/dead/{id_}/retry" for id_ in group.ids]
        yield _item(
            f"dead {group.agent} {group.failure}",
            "dead",
            f"{group.number:,} message{'s' if many else ''} to {group.agent} {'are' if many else 'is'} dead",
            _reason(group),
            group.number,
            since=group.first_ms,
            link=f"#/queue/dead?agent={quote(group.agent or '')}",
            acts=[_act(_retry_label(group.number, len(retries)), *retries)],
        )


def _retry_label(number: int, taken: int) -> str:
    if number == 1:
        return "Retry"
    return f"Retry {'all' if taken == number else 'the newest'} {taken}"


def _reason(group: DeadGroup) -> str:
    return _sentence_of(group.error or group.failure or "no reason is known")


def _sentence_of(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:].rstrip('.')}."


def _unsent(groups: Sequence[DeadGroup]) -> Iterator[Item]:
    for group in groups:
        many = group.number != 1
        sends = [f"/api/responses/{id_}/retry" for id_ in group.ids]
        yield _item(
            f"unsent {group.agent} {group.failure}",
            "unknown" if group.failure == "outcome_unknown" else "dead",
            f"{group.number:,} answer{'s' if many else ''} could not be sent",
            _reason(group),
            group.number,
            since=group.first_ms,
            link="#/queue/unsent",
            acts=[_act("Send again" if group.number == len(sends) else f"Send the newest {len(sends)} again", *sends)],
        )


def _asked(count: int) -> Iterator[Item]:
    if count:
        many = count != 1
        title = f"{_number(count)} request{'s' if many else ''} wait{'' if many else 's'} for a yes or no"
        why = "An approver has the card in a chat; you can decide here too."
        yield _item("approvals", "ask", title, why, count, link="#/approvals")


def _budgets(used_up: Iterable[BudgetView]) -> Iterator[Item]:
    for each in used_up:
        need = health.used_up(each["agent"], each["period"], each["unit"])
        title, why = f"{need.what[:1].upper()}{need.what[1:]}".split(", so ", 1)
        yield _item(
            f"budget {each['agent']} {each['period']} {each['unit']}",
            "paused",
            title,
            f"So {why}. {need.then}: {need.command}",
            until=each["until"],
            link="#/queue/waiting?" + (f"agent={quote(each['agent'])}" if each["agent"] else "reason=agent_paused"),
        )


def _used_up(conn: apsw.Connection, settings: Settings, settled: SettledUsage, now_ms: int) -> list[BudgetView]:
    found = spending.all_budgets(conn, settings.timezone, now_ms=now_ms, settled=settled)
    return [each for each in found if each["spent"] >= each["amount"] + each["extra"]]


def _outages(conn: apsw.Connection) -> Iterator[Item]:
    for outage in channel_outages.every(conn).values():
        yield _item(
            f"outage {outage.channel}",
            "wait",
            f"{outage.channel} can't send",
            f"{outage.reason}. Its answers wait; Postroom tries again by itself.",
            since=outage.began_at,
            until=outage.probe_at,
            link="#/queue/sending",
        )


def _retrying(conn: apsw.Connection, now_ms: int) -> Iterator[Item]:
    for each in troubles.retrying(conn, now_ms):
        many = each.number != 1
        behind = f" {each.behind:,} more of the same conversations wait behind." if each.behind else ""
        yield _item(
            f"retry {each.agent}",
            "wait",
            f"{each.number:,} message{'s' if many else ''} to {each.agent} {'are' if many else 'is'} tried again",
            f"{each.error or 'An attempt failed'}.{behind}",
            each.number,
            until=each.next_ms,
            link=f"#/queue/waiting?agent={quote(each.agent)}",
        )


def _silent(conn: apsw.Connection, now_ms: int) -> Iterator[Item]:
    for chat in troubles.silent_chats(conn, now_ms):
        waits = "one answer waits" if chat.waiting == 1 else f"{chat.waiting:,} answers wait in their order"
        yield _item(
            f"silent {chat.chat_id}",
            "wait",
            f"{chat.channel} asked for a pause in {chat.name or 'a chat'}",
            f"{waits[:1].upper()}{waits[1:]} for its end.",
            chat.waiting,
            until=chat.until_ms,
            link=f"#/c/{chat.chat_id}",
        )


def _unbalanced(account: Books) -> Item:
    missing = account["missing"]
    title = f"The books don't balance: {missing:,} accepted message{'s have' if missing != 1 else ' has'} no row"
    why = "An id was given out, and no row has it. Compare with the replica: emulator verify."
    return _item("books", "stop", title, why, missing)


ENDPOINTS = (get_overview,)
