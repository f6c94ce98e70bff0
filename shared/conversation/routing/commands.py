"""Text commands: those that no agent gets, those that only an admin may use, and those that are ordinary text.

The whole first token is compared, in lower case: ``/clearance`` is not ``/clear``. The bot's name may stand before it.
"""

from typing import TYPE_CHECKING, Literal

from shared.channels.base import Event
from shared.conversation.access.rules import Standing
from shared.core.time.durations import time_span

if TYPE_CHECKING:
    from shared.db.views.unanswered import Unanswered  # with the settings, for which the emulator's start would wait

CLEAR = "clear"
STOP = "stop"
FORGET = "forget"
WHY = "why"
FILTERED = frozenset({"help", "login", "logout", "doctor", "config", "remote-control"})  # of the agent's program
ADMIN = frozenset({CLEAR, WHY, "compact", "context", "cost", "files"})

MENU = {  # what platforms list for people
    STOP: "Stop what the agent does for you here",
    CLEAR: "Start afresh: forget what was said here (admins only)",
    FORGET: "Delete your messages and what the agent remembers of them",
    WHY: "Why the last message here has no answer (admins only)",
}

_MARKS = ("/", "!")  # of our commands, and of those that an agent reads itself, such as the echo agent's !fail

Outcome = Literal["pass", "drop", "refuse", "do"]


def behind_mention(event: Event) -> str:
    """The text without the bot's name at its start, where a command follows it; else the whole text."""
    rest = event.text.removeprefix(event.mention)
    return rest if rest.startswith(_MARKS) else event.text


def parse(event: Event, text: str | None = None) -> str | None:
    """The command that the event begins with, without its slash, in lower case; None if there is no command.

    ``/cmd@bot`` is a command if the platform says that the bot is us.

    Args:
        text: the text for one agent, where a prefix was taken off; None: the event's own text.
    """
    tokens = (behind_mention(event) if text is None else text).split(maxsplit=1)
    if not tokens or not tokens[0].startswith("/"):
        return None
    name, at, _ = tokens[0][1:].lower().partition("@")
    is_another_bots = at and name != (event.command or "").lower()
    return None if is_another_bots else name or None


def decide(command: str | None, sender: Standing, agent: str) -> Outcome:
    """The outcome of a command to *agent*. Pure.

    ``drop`` it in silence, ``refuse`` it with a sentence, ``do`` it here instead of asking the agent, or ``pass`` it to
    the agent as text.
    """
    if command in FILTERED:
        return "drop"
    if command in (STOP, FORGET):
        return "do"
    if command not in ADMIN:
        return "pass"
    if not sender.administers(agent):
        return "refuse"
    return "do" if command in (CLEAR, WHY) else "pass"


def refusal(command: str, agent_name: str) -> str:
    """The answer to a sender who is not an admin."""
    return (
        f"Only an admin of {agent_name} may use /{command}. Ask one of them to do it; if this is your own bot, "
        "run `emulator pair` on its machine and send me the code."
    )


def stopped(waiting: int, running: int) -> str:
    """The answer to a person who stopped what was done for them."""
    if not waiting and not running:
        return "There is nothing of yours to stop here."
    left_out = "" if not waiting else " One message that waited is left out." if waiting == 1 else (
        f" {waiting} messages that waited are left out."
    )  # fmt: skip
    return f"Stopped.{left_out}"


def forgotten(remembered: int, said: int, *, goes_on: bool) -> str:
    """The answer to a person who had the memory of them deleted. *goes_on*: sweep looks for older lines."""
    older = " Older ones follow within some minutes." if goes_on else ""
    if not remembered and not said:
        return f"Nothing is remembered from your {'newest ' if goes_on else ''}messages.{older}"
    kept = [f"{_lines(said)} of what you said and I answered"] if said else []
    kept += [f"{_lines(remembered)} of memory from your messages"] if remembered else []
    return f"Deleted: {' and '.join(kept)}.{older} This chat itself stays as it is."


def _lines(count: int) -> str:
    return "one line" if count == 1 else f"{count} lines"


NOTHING_UNANSWERED = "No message of this chat waits, is dead or was left without an answer, as far back as I looked."


def explained(found: "Unanswered", page: str, *, now_ms: int) -> str:
    """The answer to an admin who asked why; *page*: the address where the operator's page shows the message, if any."""
    ago = time_span(now_ms - found.created_at)
    by = f" of {found.sender}" if found.sender else ""
    return "\n".join(filter(None, (f"{found.id}{by}, {ago} ago: {found.why.in_full(now_ms)}", page)))


def not_found(ref: str) -> str:
    """The answer to an admin who asked about a message that is not there, or of others."""
    return f"I know no message {ref} of this chat or of your agents. `/why` alone explains the last one here."


def done(agent_name: str) -> str:
    """The answer to an admin who cleared the session."""
    return f"{agent_name} starts afresh: what was said here before is forgotten."
