"""What the relay keeps over restarts: how far ``ingest`` has everything, and which channels are threads.

A session can be resumed for some minutes. It then repeats what came after ``seq``, so the relay needs no queue on disk.
"""

from collections import OrderedDict
from pathlib import Path

import msgspec

_MOST_CHANNELS = 20_000


class RelayState(msgspec.Struct):
    """The content of the file.

    Attributes:
        bot: the application's id and the intents that the session was begun with.
        seq: the number of the last frame that needs no repetition; None: none came yet.
        parents: of channels: a thread's parent, or None for a channel that is no thread.
    """

    bot: str = ""
    session_id: str = ""
    resume_url: str = ""
    seq: int | None = None
    parents: dict[str, str | None] = {}


class StateFile:
    """The file, for its owner alone; a broken one is as none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = b""

    def read(self) -> RelayState:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=RelayState)
        except (OSError, ValueError):
            return RelayState()

    def write(self, state: RelayState) -> None:
        """Replace the file, unless nothing changed.

        Raises:
            OSError: it can't be written.
        """
        text = msgspec.json.encode(state)
        if text == self._written:
            return
        draft = self._path.with_suffix(".new")
        draft.touch(mode=0o600)
        draft.write_bytes(text)
        draft.replace(self._path)
        self._written = text


class Channels:
    """Which channels are threads, and of which channel: the newest ``_MOST_CHANNELS``."""

    def __init__(self, parents: dict[str, str | None]) -> None:
        self._parents = OrderedDict(parents)

    def learn(self, frame_name: object, data: object) -> None:
        """Take in what a frame says about channels."""
        if not isinstance(data, dict):
            return
        if frame_name == "GUILD_CREATE":
            self._learn_all(data.get("channels"), are_threads=False)
        if frame_name in ("GUILD_CREATE", "THREAD_LIST_SYNC"):
            self._learn_all(data.get("threads"), are_threads=True)
        if frame_name in ("THREAD_CREATE", "THREAD_UPDATE"):
            self._learn_all([data], are_threads=True)
        if frame_name == "CHANNEL_CREATE":
            self._learn_all([data], are_threads=False)

    def _learn_all(self, channels: object, *, are_threads: bool) -> None:
        for each in channels if isinstance(channels, list) else []:
            match each:
                case {"id": str(id_), "parent_id": str(parent)} if are_threads:
                    self.put(id_, parent)
                case {"id": str(id_)}:
                    self.put(id_, None)

    def put(self, channel: str, parent: str | None) -> None:
        self._parents[channel] = parent
        self._parents.move_to_end(channel)
        while len(self._parents) > _MOST_CHANNELS:
            self._parents.popitem(last=False)

    def knows(self, channel: str) -> bool:
        return channel in self._parents

    def parent_of(self, channel: str) -> str | None:
        """The parent of a thread; None for any other channel."""
        return self._parents.get(channel)

    def as_dict(self) -> dict[str, str | None]:
        return dict(self._parents)
