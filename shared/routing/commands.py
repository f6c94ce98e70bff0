"""The gate for text commands: which are nobody's, which are an admin's, and which are text like any other.

The first token is compared whole, in lower case: ``/clearance`` is no ``/clear``.
"""

from typing import Literal

from shared.access.rules import Standing
from shared.channels.base import Event

CLEAR = "clear"
FILTERED = frozenset({"help", "login", "logout", "doctor", "config", "remote-control"})  # an agent's program's own
ADMIN = frozenset({CLEAR, "compact", "context", "cost", "files"})

Gate = Literal["pass", "drop", "refuse", "do"]


def command_of(event: Event, text: str | None = None) -> str | None:
    """The command that the event begins with, without its slash, in lower case; None if it begins with none.

    ``/cmd@bot`` is one if the platform says that the bot is us. *text* stands for the event's own where something
    before it was taken off.
    """
    tokens = (event.text if text is None else text).split(maxsplit=1)
    if not tokens or not tokens[0].startswith("/"):
        return None
    name, at, _ = tokens[0][1:].lower().partition("@")
    is_another_bots = at and name != (event.command or "").lower()
    return None if is_another_bots else name or None


def gate(command: str | None, standing: Standing, agent: str) -> Gate:
    """What becomes of a command to *agent* from somebody of this standing.

    ``drop`` without a word, ``refuse`` with one, ``do`` it here instead of asking the agent, or ``pass`` it as text.
    """
    if command in FILTERED:
        return "drop"
    if command not in ADMIN:
        return "pass"
    if not standing.administers(agent):
        return "refuse"
    return "do" if command == CLEAR else "pass"


def refusal(command: str, agent_name: str) -> str:
    """What somebody is told who is no admin."""
    return (
        f"Only an admin of {agent_name} may use /{command}. Ask one of them to do it; if this is your own bot, "
        "run `emulator pair` on its machine and send me the code."
    )


def done(agent_name: str) -> str:
    """What an admin is told who cleared."""
    return f"{agent_name} starts afresh: what was said here before is forgotten."
