"""Tools between agents: write to one, take one's mail, and see whom one may write to."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from shared.core.errors import ConfigInvalid, WrongState
from shared.core.time import durations
from shared.db.queue import mailbox as mailbox_rows
from shared.db.queue.mailbox import MailboxMessage
from shared.db.roster import agents, chats, destinations, teams
from shared.db.roster.destinations import Destination
from shared.db.roster.teams import Team
from shared.db.views import team_work
from shared.db.views.team_work import Given, Work
from shared.queue.teamwork import deadlines, handoffs, mailbox, rooms
from shared.turns.tools import places
from shared.turns.tools.base import Arguments, HandedOver, Tool, ToolCall
from shared.turns.tools.outbox_files import FOR_AGENTS
from shared.turns.tools.speaking import Text

_PREVIEW = 100
_AT_ONCE = 50  # messages that one call takes out of the mailbox


class SendToAgent(Arguments):
    agent: Annotated[str, Field(min_length=1, max_length=64, description="a destination's name, or a teammate's id")]
    text: Text
    kind: Annotated[
        Literal["message", "task", "status", "nudge"],
        Field(description="message and task get an answer, which comes as a message of its own; the others none"),
    ] = "message"
    is_urgent: Annotated[bool, Field(description="interrupts what the agent does")] = False
    within: Annotated[
        str | None,
        Field(max_length=20, description="such as 30m or 2h: without an answer by then you are woken, once"),
    ] = None
    file: Annotated[
        str | None,
        Field(min_length=1, max_length=1000, description="a file of your outbox, which the agent gets in its inbox"),
    ] = None


def _recipient(call: ToolCall, given: SendToAgent) -> str:
    """The agent to write to.

    Raises:
        PostroomError: it can't be written to.
    """
    named = destinations.get(call.conn, call.agent.id, given.agent)
    mate = handoffs.teammate(call.conn, call.agent.id, given.agent) if named is None else None
    recipient = mate or places.destination(call, given.agent).target_agent
    if recipient is None:
        raise ConfigInvalid(f"{given.agent!r} is a chat: use send_message to write there")
    if agents.get(call.conn, recipient) is None:  # the words of others would list every agent
        raise WrongState(f"agent {given.agent!r} was deleted")
    if call.asked is not None and mailbox.reads_answer(call.conn, recipient, call.asked):
        raise WrongState(f"agent {given.agent!r} asked you, and reads the answer of this turn: say it there")
    if given.within is not None and given.kind not in ("message", "task"):
        raise ConfigInvalid(f"a {given.kind} gets no answer, so it has no deadline: leave out 'within'")
    return recipient


def _within_ms(given: SendToAgent) -> int | None:
    try:
        return None if given.within is None else deadlines.checked(durations.parse_ms(given.within))
    except ValueError as error:
        raise ConfigInvalid(f"argument 'within': {error}") from None


def _hand_over(call: ToolCall, given: SendToAgent) -> HandedOver | None:
    _recipient(call, given)
    return None if given.file is None else HandedOver(given.file, FOR_AGENTS)


def _send(call: ToolCall, given: SendToAgent) -> str:
    recipient = _recipient(call, given)
    call.act()
    mailbox.send(
        call.conn,
        call.agent.id,
        recipient,
        places.words(call, given.text),
        msg_type=given.kind,
        urgency="urgent" if given.is_urgent else "normal",
        because=call.asked.id if call.asked is not None else None,
        files=() if call.file is None else (call.file,),
        within_ms=_within_ms(given),
        limits=call.limits,
        now_ms=call.now_ms,
    )
    answer = "Its answer comes as a message of its own." if given.kind in ("message", "task") else ""
    along = "" if call.file is None else f" with {call.file.name}"
    if given.within is not None:
        answer = f"{answer} If there is none within {given.within}, you are woken."
    return f"Sent to agent {given.agent}{along}. {answer}".strip()


class ConsumeMessages(Arguments):
    pass


def _consume(call: ToolCall, _: ConsumeMessages) -> str:
    taken = mailbox_rows.consume_of_session(
        call.conn, call.agent.id, call.session.id, now_ms=call.now_ms, limit=_AT_ONCE
    )
    if not taken:
        return "No message of another agent waits for you in this conversation."
    call.act()
    lines = [_mail(each) for each in taken]
    return "\n\n".join([f"{len(taken)} taken; they get no turn of their own, so act on them now.", *lines])


def _mail(stored: MailboxMessage) -> str:
    message = stored.message
    return f"{message.message_id} from {message.from_agent or message.sender} ({stored.msg_type}):\n{message.message}"


class ListDestinations(Arguments):
    pass


def _list(call: ToolCall, _: ListDestinations) -> str:
    lines = [_line(call, each) for each in destinations.of_agent(call.conn, call.agent.id)]
    return "\n".join(lines) if lines else "You have no destinations: you can write in this conversation only."


def _line(call: ToolCall, each: Destination) -> str:
    if each.target_agent is not None:
        other = agents.get(call.conn, each.target_agent)
        return f"{each.name}: agent{f' {other.name}' if other is not None else ''} (send_to_agent)"
    chat = chats.get(call.conn, each.target_chat or 0)
    if chat is None or chat.status != "active" or chat.channel == rooms.CHANNEL:
        return f"{each.name}: a chat that can't be written to now"
    kind = "group" if chat.is_group else "direct chat"
    name = f" {' '.join(chat.name.split())[:60]}" if chat.name else ""
    here = ", this conversation" if chat.id == call.session.chat_id else ""
    return f"{each.name}: {kind}{name} on {chat.channel}{here} (send_message)"


class ListTeam(Arguments):
    pass


def _list_team(call: ToolCall, _: ListTeam) -> str:
    mine = [team for team in teams.every(call.conn) if call.agent.id in team.agents]
    if not mine:
        return "You are in no team."
    return "\n\n".join("\n".join(_team(call, team)) for team in mine)


def _team(call: ToolCall, team: Team) -> Iterator[str]:
    leader = "you lead it" if team.leader == call.agent.id else f"{team.leader} leads it"
    yield f"Team {team.id} ({leader}):"
    for member in team.agents:
        if member != call.agent.id:
            work = team_work.of(call.conn, member, asker=call.agent.id, now_ms=call.now_ms)
            yield f"- {member}: {'; '.join(_work(work, call.now_ms))}"
            yield from (f"  - from you: {_handed(each, call.now_ms)}" for each in work.of_asker)


def _work(work: Work, now_ms: int) -> Iterator[str]:
    if work.paused is not None:
        yield f"paused ({work.paused})"
    for each in work.running:
        what = "what you handed over" if each.is_of_asker else "something else"
        yield f"has worked for {deadlines.in_words(now_ms - each.since)} on {what}"
    if not work.running and work.paused is None:
        yield "does nothing now"
    if work.waiting:
        yield f"{work.waiting} waiting, the oldest for {deadlines.in_words(now_ms - (work.waiting_since or now_ms))}"


def _handed(each: Given, now_ms: int) -> str:
    state = "in work" if each.status == "processing" else "waits"
    due = ""
    if each.deadline is not None:
        left_ms = each.deadline - now_ms
        late = f"late by {deadlines.in_words(-left_ms)}"
        due = f", due in {deadlines.in_words(left_ms)}" if left_ms > 0 else f", {late}"
    return f"“{deadlines.quote(each.text, _PREVIEW)}” ({state} since {deadlines.in_words(now_ms - each.since)}{due})"


TOOLS = (
    Tool(
        "send_to_agent",
        "Write to another agent that list_destinations or list_team names. This returns at once; its answer comes "
        "later as a message of its own, so don't wait for it, and what you say about it then goes to the person for "
        "whom you asked.",
        SendToAgent,
        _send,
        kicks=("dispatch",),
        hands_over=_hand_over,
    ),
    Tool(
        "consume_messages",
        "Take the waiting messages of other agents out of this conversation now, instead of getting each in a turn of "
        "its own. Answers with their texts. A message with files stays: its turn has them.",
        ConsumeMessages,
        _consume,
        is_repeatable=True,
        kicks=("dispatch",),
    ),
    Tool(
        "list_team",
        "See what each agent of your teams works on: since when, what waits, what you handed over, with its deadline.",
        ListTeam,
        _list_team,
        reads=True,
    ),
    Tool(
        "list_destinations",
        "List the chats and agents that you may write to, by the names that 'to' and 'agent' take.",
        ListDestinations,
        _list,
        reads=True,
    ),
)
