"""What Telegram can do, known without any settings."""

from shared.channels.base import FileLimits, PollLimits, Traits
from shared.channels.telegram import limits, media, reactions
from shared.channels.telegram.attachments import DOWNLOAD_BYTES

TYPING_EVERY_MS = 4_000  # Telegram shows it for 5 s
DRAFT_EVERY_MS = 1_500  # drafts count for the limits of a chat

TRAITS = Traits(
    has_threads=True,
    direct_by_sender=True,
    has_buttons=True,
    manages_bots=True,
    has_edits=True,
    has_removals=True,
    has_reactions=True,
    reactions=reactions.ALLOWED,
    nearest_reaction=reactions.nearest,
    typing_every_ms=TYPING_EVERY_MS,
    draft_every_ms=DRAFT_EVERY_MS,
    files=FileLimits(most_bytes=media.UPLOAD_BYTES, most_in_album=media.ALBUM_FILES),
    fetch_bytes=DOWNLOAD_BYTES,
    polls=PollLimits(most_options=12, longest_question=300, longest_option=100, most_hours=730),
    has_stickers=True,
    makes_topics=True,
    allowances=limits.allowances,
)
