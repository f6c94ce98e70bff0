"""Tools for tasks: messages that the agent gets later in the same conversation, once or repeatedly."""

from datetime import datetime
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, Field

from shared.agents import task_script
from shared.agents.programs import containment
from shared.core import content
from shared.core.errors import ConfigInvalid, NotFound, WrongState
from shared.core.time import cron
from shared.db.queue import sessions
from shared.db.queue.messages import NewMessage
from shared.db.queue.schedules.series import Plan
from shared.db.queue.schedules.settings import SETTINGS, ScheduleSettings
from shared.db.queue.sessions import Session
from shared.queue import schedules, series
from shared.queue.series import Change, When
from shared.roster.changes import takes_settings_of
from shared.turns.tools import places
from shared.turns.tools.base import Arguments, Tool, ToolCall

MOST_PLANNED = 50  # tasks of one conversation
_PREVIEW = 200

Prompt = Annotated[str, Field(min_length=1, max_length=20_000, description="what you are asked to do then")]
Instant = Annotated[
    str | None,
    Field(default=None, max_length=100, description="ISO 8601, such as 2027-01-31T09:00:00; on the task's wall clock"),
]
Cron = Annotated[
    str | None,
    Field(default=None, max_length=200, description="five fields, such as '0 9 * * 1-5'; for a task that repeats"),
]
Zone = Annotated[str | None, Field(default=None, max_length=100, description="such as Europe/Rome; default: yours")]
TaskId = Annotated[str, Field(min_length=1, max_length=100, description="from schedule_task or list_tasks")]


@takes_settings_of(ScheduleSettings, is_new=True)
class ScheduleTask(Arguments):
    prompt: Prompt
    run_at: Instant = None
    cron: Cron = None
    timezone: Zone = None
    session: Annotated[
        Literal["chat", "own"],
        Field(default="chat", description="own: the runs know each other, not this conversation"),
    ] = "chat"


def _schedule(call: ToolCall, given: ScheduleTask) -> str:
    if (given.run_at is None) == (given.cron is None):
        raise ConfigInvalid("give either 'run_at', for once, or 'cron', for a task that repeats")
    zone = given.timezone or call.agent.timezone
    cron.validate("* * * * *", zone)
    if len(_own(call)) >= MOST_PLANNED:
        raise WrongState(f"{MOST_PLANNED} tasks of this conversation are planned already: cancel one first")
    due_ms = schedules.instant_ms(given.run_at, zone, name="run_at", now_ms=call.now_ms)
    settings = ScheduleSettings(**_chosen(call, given))
    call.act()
    when = When(due_ms, given.cron, zone, settings=settings)
    new = _message(call, given.prompt)
    if given.session == "own":
        new = series.own_session(call.conn, new, call.session, now_ms=call.now_ms)
    plan = series.plan_message(call.conn, new, when, now_ms=call.now_ms)
    where = "in a session of its own; the answer goes here" if given.session == "own" else "in this conversation"
    return f"Planned as {plan.series_id}: {_when(plan)}. You get the prompt then, {where}."


def _chosen(call: ToolCall, given: BaseModel) -> dict[str, Any]:
    """The settings that the agent names. It may only give a script what its own programs may do.

    Raises:
        ConfigInvalid: it may not run any command unasked, or nothing holds a script in.
    """
    chosen = {name: getattr(given, name) for name in SETTINGS if name in given.model_fields_set}
    if chosen.get("script"):
        why_not = task_script.why_not_planned(call.agent.provider, call.agent.config)
        if why_not is None and not containment.available().is_leash:
            why_not = "no sandbox confines a script on this host"
        if why_not is not None:
            raise ConfigInvalid(f"{why_not}: leave 'script' out, or ask for an operator, who may set it")
    return chosen


def _message(call: ToolCall, prompt: str) -> NewMessage:
    """The message of the task: what the agent says about it goes to the place of this turn."""
    there = places.here(call)
    asked = there.asked
    return NewMessage(
        id_prefix="task",
        kind="task",
        channel=there.channel,
        chat_id=there.chat_id,
        platform_id=there.platform_id,
        thread_id=there.thread_id,
        sender=asked.sender if asked is not None else "operator",
        sender_id=asked.sender_id if asked is not None else None,
        message=prompt,
        content=content.encode({"context": content.private_context(there.private_to)} if there.private_to else {}),
        agent=call.agent.id,
        session_id=call.session.id,
    )


# -- this conversation's own ------------------------------------------------------------------------------------------


def _own(call: ToolCall) -> list[Plan]:
    """The planned tasks of this conversation, soonest first."""
    return [plan for plan in series.every(call.conn) if _is_own(call, plan)]


def _is_own(call: ToolCall, plan: Plan) -> bool:
    if plan.kind != "message" or plan.agent != call.agent.id or plan.session_id is None:
        return False
    found = sessions.get(call.conn, plan.session_id)
    return found is not None and _place(found) == _place(call.session)


def _place(session: Session) -> tuple[int | None, str | None, str | None]:
    """What a session and its successors have in common."""
    return session.chat_id, session.thread_id, session.private_to


def _named(call: ToolCall, task: str) -> Plan:
    """The task of this conversation.

    Raises:
        NotFound: this conversation has none with this id, whoever else may have it.
    """
    try:
        plan = series.get(call.conn, task)
    except NotFound:
        plan = None
    if plan is None or not _is_own(call, plan):
        raise NotFound(f"this conversation has no task {task!r}; list_tasks lists its tasks")
    return plan


class ListTasks(Arguments):
    pass


def _list(call: ToolCall, _: ListTasks) -> str:
    plans = _own(call)
    return "\n".join(map(_line, plans)) if plans else "No task is planned in this conversation."


def _line(plan: Plan) -> str:
    text = " ".join(plan.message.split())
    shown = text if len(text) <= _PREVIEW else f"{text[:_PREVIEW]}…"
    return f"{plan.series_id}: {_when(plan)}: {shown}"


def _when(plan: Plan) -> str:
    zone = plan.timezone or "UTC"
    at = datetime.fromtimestamp(plan.scheduled_at / 1000, ZoneInfo(zone)).isoformat(timespec="minutes")
    repeats = f"'{plan.recurrence}' in {zone}, next " if plan.recurrence is not None else ""
    state = {"paused": "paused; ", "running": "running now; "}.get(plan.status, "")
    return f"{state}{repeats}{at}"


@takes_settings_of(ScheduleSettings)
class UpdateTask(Arguments):
    task: TaskId
    prompt: Annotated[str | None, Field(default=None, min_length=1, max_length=20_000)] = None
    run_at: Instant = None
    cron: Cron = None
    timezone: Zone = None


def _update(call: ToolCall, given: UpdateTask) -> str:
    plan = _named(call, given.task)
    zone = given.timezone or plan.timezone or call.agent.timezone
    cron.validate("* * * * *", zone)
    due_ms = schedules.instant_ms(given.run_at, zone, name="run_at", now_ms=call.now_ms)
    wanted = Change(
        message=given.prompt,
        due_ms=due_ms,
        recurrence=given.cron or None,
        timezone=given.timezone,
        settings=_chosen(call, given),
    )
    if wanted == Change():
        raise ConfigInvalid("give at least one of 'prompt', 'run_at', 'cron' and 'timezone', or a setting")
    plan = schedules.change(call.conn, plan, wanted, now_ms=call.now_ms)
    return f"Changed {plan.series_id}: {_when(plan)}."


class OneTask(Arguments):
    task: TaskId


def _pause(call: ToolCall, given: OneTask) -> str:
    plan = schedules.change(call.conn, _named(call, given.task), Change(), is_enabled=False, now_ms=call.now_ms)
    return f"Paused {plan.series_id}; resume_task continues it."


def _resume(call: ToolCall, given: OneTask) -> str:
    plan = schedules.change(call.conn, _named(call, given.task), Change(), is_enabled=True, now_ms=call.now_ms)
    return f"{plan.series_id} goes on: {_when(plan)}."


def _cancel(call: ToolCall, given: OneTask) -> str:
    plan = series.cancel(call.conn, _named(call, given.task).series_id, now_ms=call.now_ms)
    return f"Cancelled {plan.series_id}: it no longer runs."


TOOLS = (
    Tool(
        "schedule_task",
        "Plan something for later: at that time you get the prompt as a message in this conversation, and your answer "
        "goes there. Give 'run_at' for once, or 'cron' for a task that repeats. A 'script' runs before you and may "
        "spare you the turn. Answers with the task's id.",
        ScheduleTask,
        _schedule,
        kicks=("dispatch",),
    ),
    Tool("list_tasks", "List the planned tasks of this conversation, soonest first.", ListTasks, _list, reads=True),
    Tool(
        "update_task",
        "Change a planned task of this conversation, with the arguments of schedule_task; what you leave out stays.",
        UpdateTask,
        _update,
        described_by=ScheduleTask,
        is_repeatable=True,
        kicks=("dispatch",),
    ),
    Tool("pause_task", "Pause a task until resume_task.", OneTask, _pause, is_repeatable=True, kicks=("dispatch",)),
    Tool("resume_task", "Resume a paused task.", OneTask, _resume, is_repeatable=True, kicks=("dispatch",)),
    Tool("cancel_task", "End a task of this conversation.", OneTask, _cancel, kicks=("dispatch",)),
)
