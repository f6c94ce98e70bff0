"""Whether a wiring engages with an event, that is, whether its agent answers. Pure functions over facts.

::

    mention          the bot is addressed, or the chat is direct
    mention-sticky   the same; from then on every message in that thread, by a row of ``sticky_threads``
    pattern          the text matches the pattern; nothing else counts
"""

from typing import NamedTuple

from shared.core.text import patterns
from shared.db.roster.wirings import Wiring


class EngagementFacts(NamedTuple):
    """The facts of an event and its thread on which engagement depends.

    Attributes:
        is_mention: the platform confirms that the bot was named, called by a command, or replied to.
        is_group: the chat has other people.
        text: the whole text.
        thread_id: the thread, on platforms that have threads; otherwise None.
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
    """Whether *wiring* engages with the event.

    Raises:
        ValueError: its mode or its pattern is invalid; neither counts as a yes.
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
    """Whether the wiring, mentioned now, engages with every later message in this thread of a group."""
    is_thread = facts.is_group and facts.thread_id is not None
    return wiring.engage_mode == "mention-sticky" and is_thread and facts.is_mention and not facts.is_stuck
