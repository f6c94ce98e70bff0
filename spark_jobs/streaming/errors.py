"""Why a stream stops; each message says which option crosses it."""

from shared.core.errors import PermanentError


class StreamBroken(PermanentError):
    """The stream can't go on without losing or repeating rows."""


class HoleInStream(StreamBroken):
    """Rows after the last row that was read are deleted."""


class EpochChanged(StreamBroken):
    """The database was restored: its history may have gone back."""


class OffsetInvalid(StreamBroken):
    """The checkpoint holds no offset of this source."""
