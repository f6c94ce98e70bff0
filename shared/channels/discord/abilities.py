"""What Discord can do, known without the settings of an app."""

from shared.channels.base import FileLimits, PollLimits, Traits
from shared.channels.discord import limits

TRAITS = Traits(
    has_threads=True,
    direct_by_sender=False,
    has_buttons=True,
    has_edits=True,
    has_removals=True,
    has_reactions=True,
    wait_ms=15 * 60_000,
    typing_every_ms=8_000,
    files=FileLimits(most_bytes=10 * 1024 * 1024, most_in_album=10),
    fetch_bytes=100 * 1024 * 1024,
    polls=PollLimits(most_options=10, longest_question=300, longest_option=55, most_hours=768),
    makes_topics=True,
    finds_sent=True,
    allowances=limits.allowances,
)
