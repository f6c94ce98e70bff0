"""Whether a wiring takes an event as something to answer: facts in, decision out.

::

    mention          the platform says that the bot is meant, or there is nobody else in the chat
    mention-sticky   the same; and after that everything in the same thread, by a row of its own
    pattern          the text matches, and nothing else counts
"""

from typing import NamedTuple

from shared.core import patterns
from shared.db.roster.wirings import Wiring


class EngagementFacts(NamedTuple):
    """What an event says about itself, and what a row says about its thread.

    Attributes:
        is_mention: the bot was named, called by a command, or replied to, as the platform confirms.
        is_group: there are other people.
        text: what the person wrote, whole.
        thread_id: the thread, on platforms that have them; else None.
        is_stuck: this wiring was mentioned in this thread before.
    """

    is_mention: bool
    is_group: bool
    text: str
    thread_id: str | None = None
    is_stuck: bool = False

    @property
    def is_meant(self) -> bool:
        """Whether the bot is addressed."""
        return self.is_mention or not self.is_group


def engages(wiring: Wiring, facts: EngagementFacts) -> bool:
    """Whether *wiring* takes the event.

    Raises:
        ValueError: its mode is none, or its pattern; neither is taken for a yes.
    """
    match wiring.engage_mode:
        case "mention":
            return facts.is_meant
        case "mention-sticky":
            return facts.is_meant or (facts.thread_id is not None and facts.is_stuck)
        case "pattern" if wiring.engage_pattern:
            return patterns.matches(wiring.engage_pattern, facts.text)
    raise ValueError(f"engage_mode {wiring.engage_mode!r} with the pattern {wiring.engage_pattern!r}")


def sticks(wiring: Wiring, facts: EngagementFacts) -> bool:
    """Whether the wiring, mentioned now, goes on engaging in this thread of a group."""
    is_thread = facts.is_group and facts.thread_id is not None
    return wiring.engage_mode == "mention-sticky" and is_thread and facts.is_mention and not facts.is_stuck
