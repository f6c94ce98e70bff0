"""Rows as the jobs write them, by short words, and a whole month of a busy postroom."""

from datetime import UTC, date, datetime, timedelta

from spark_jobs.report.facts import Facts

NOON = 1_760_011_200_000  # 2025-10-09 12:00 UTC
HOUR_MS = 3_600_000
DAY_MS = 86_400_000
TODAY = date(2025, 10, 9)


def back(days):
    return TODAY - timedelta(days=days)


def ms(at):
    return int(datetime(at.year, at.month, at.day, tzinfo=UTC).timestamp()) * 1000


def facts(now_ms=NOON, absent=None, restored_ms=(), complete_from=None, whole=None, **rows):
    return Facts(NOON, now_ms, rows, absent or {}, restored_ms, complete_from, whole or {})


def pause(agent, reason="401: expired", *, code="auth", by="postroom", state="paused"):
    """A row of ``agent_pauses``; without its reason where *reason* is None, as in a mart without text."""
    told = {} if reason is None else {"reason": reason}
    return {"agent": agent, "state": state, "code": code, "paused_by": by, "since": NOON, **told}


def budget(agent, notice_of, *, period="day", unit="money", notice="used_up"):
    row = {"id": 1, "agent": agent, "period": period, "unit": unit, "amount": 5}
    return row | {"notice": notice, "notice_of": notice_of}


def volume(days, channel, received, completed=None, dead=0):
    completed = received - dead if completed is None else completed
    return {"day": back(days), "channel": channel, "received": received, "completed": completed, "dead": dead}


def times(days, agent, wait=(200, 900, 2000), turn=(3000, 9000, 20_000), count=20):
    wait, turn = wait or (None,) * 3, turn or (None,) * 3
    row = {"day": back(days), "agent": agent, "waited": count, "turns": count}
    row |= {f"wait_p{p}_ms": value for p, value in zip((50, 95, 99), wait, strict=True)}
    return row | {f"turn_p{p}_ms": value for p, value in zip((50, 95, 99), turn, strict=True)}


def waiting(days, agent, due_at, messages, *, ended=None, running=0):
    ended = None if ended is None else back(ended)
    row = {"day": back(days), "agent": agent, "due_at": due_at, "ended": ended}
    return row | {"messages": messages, "running": running}


def failed(days, agent, failure, messages, attempts, dead=0):
    row = {"day": back(days), "agent": agent, "failure": failure}
    return row | {"messages": messages, "failed_attempts": attempts, "dead": dead}


def delivered(days, channel, count, *, dead=0, still_dead=None, retries=0, unknown=0, took=(300, 800, 1500)):
    took = took or (None,) * 3
    row = {"day": back(days), "channel": channel, "delivered": count, "dead": dead, "retries": retries}
    row |= {"unknown_outcomes": unknown, "still_dead": dead if still_dead is None else still_dead}
    return row | {f"delivery_p{p}_ms": value for p, value in zip((50, 95, 99), took, strict=True)}


def scheduled(days, series, runs, *, missed=0, doubled=0, late=(40, 900)):
    row = {"day": back(days), "series_id": series, "runs": runs, "missed": missed, "doubled": doubled}
    return row | {"late_p50_ms": late[0], "late_max_ms": late[1]}


def people(days, channel, active, returning):
    row = {"day": back(days), "channel": channel, "active": active, "returning": returning}
    return row | {"sessions": active, "messages": 3 * active}


def pair(days, from_agent, agent, messages, *, back_and_forth=1, longest=4):
    row = {"day": back(days), "from_agent": from_agent, "agent": agent, "messages": messages}
    return row | {"conversations": 2, "back_and_forth": back_and_forth, "longest": longest}


def cost(days, agent, micro, *, model="claude-sonnet", paid_by="key", turns=10, unpriced=0):
    row = {"day": back(days), "agent": agent, "model": model, "paid_by": paid_by, "turns": turns, "requests": turns}
    row |= {"input": 9000, "output": 1200, "cache_read": 0, "cache_write": 0}
    return row | {"cost_micro_dollars": micro, "turns_without_price": unpriced}


AGENTS = {"coder": 1.0, "support": 0.6, "planner": 0.3}
CHANNELS = {"telegram": 40, "discord": 25, "telegram.sales": 9}


def month(days=30, *, names=lambda name: name):
    """A month that went well; *names* may change the names of agents and channels."""
    rows = {job: [] for job in JOBS}
    for at in range(days - 1, -1, -1):
        wave = 1 + (at * 7 % 5) / 10 - (0.5 if back(at).weekday() > 4 else 0)
        _add_channels(rows, at, wave, names)
        _add_agents(rows, at, wave, names)
        rows["schedules"] += [scheduled(at, "sched_daily", 1), scheduled(at, "sched_hourly", 24, late=(60, 1400))]
    return rows


JOBS = (
    "message_volume", "turn_times_of_days", "backlog", "failures", "deliveries", "schedules", "people", "agent_pairs",
    "costs",
)  # fmt: skip


def _add_channels(rows, at, wave, names):
    for channel, size in CHANNELS.items():
        count, channel = round(size * wave), names(channel)
        rows["message_volume"].append(volume(at, channel, count))
        rows["deliveries"].append(delivered(at, channel, count, retries=at % 3, took=(250 + 20 * at, 900, 1800 + at)))
        rows["people"].append(people(at, channel, count // 3 + 1, count // 4))


def _add_agents(rows, at, wave, names):
    for agent, share in AGENTS.items():
        count, agent = round(60 * wave * share), names(agent)
        wait = (150 + 10 * at, 900 + 100 * (at % 4), 4000)
        rows["turn_times_of_days"].append(times(at, agent, wait, (4000, 15_000 + 900 * (at % 5), 61_000), count))
        rows["failures"].append(failed(at, agent, "none", count, count // 12))
        rows["costs"].append(
            cost(at, agent, count * 12_000, model="opus" if agent == "coder" else "haiku", turns=count)
        )
        rows["backlog"].append(waiting(at, agent, ms(back(at)), count, ended=at))
    rows["agent_pairs"] += [
        pair(at, names("planner"), names("coder"), 6), pair(at, names("coder"), names("planner"), 4),
        pair(at, names("support"), names("coder"), 2),
    ]  # fmt: skip


def bad_month():
    """The same month with an end on which much is wrong."""
    rows = month()
    rows["message_volume"] = [
        each for each in rows["message_volume"] if each["channel"] != "telegram.sales" or each["day"] < back(1)
    ]
    rows["failures"] += [failed(0, "coder", "killed", 4, 20, dead=3), failed(1, "coder", "auth", 1, 2, dead=1)]
    rows["failures"] += [failed(at, "support", "network", 3, 4 + at % 3) for at in range(20, 0, -4)]
    rows["backlog"].append(waiting(0, "coder", NOON - 5 * HOUR_MS, 7, running=1))
    rows["deliveries"].append(delivered(0, "discord", 0, dead=2, unknown=1, retries=12, took=None))
    rows["schedules"].append(scheduled(1, "sched_daily", 0, missed=3))
    rows["costs"].append(cost(1, "coder", 41_000_000, model="opus"))
    return {job: sorted(each, key=lambda row: row["day"]) for job, each in rows.items()}
