"""Names to channel adapters. The name comes from a URL, so it only ever selects from this list."""

from functools import cache
from importlib import import_module

from shared.channels.base import Channel, Traits
from shared.core.errors import UnknownName

_MODULES = {
    "discord": "shared.channels.discord.channel",
    "telegram": "shared.channels.telegram.channel",
}
_TRAITS = {
    "discord": Traits(has_threads=True, direct_by_sender=False, has_buttons=True),
    "telegram": Traits(has_threads=True, direct_by_sender=True, has_buttons=True),
}
_NO_TRAITS = Traits(has_threads=False, direct_by_sender=False, has_buttons=False)
NAMES = tuple(_MODULES)


def get(name: str) -> Channel:
    """The adapter called *name*, imported and configured on first use and kept for the process.

    Raises:
        UnknownName: no such channel.
        ConfigInvalid: the channel lacks a setting; the message names it.
    """
    if name not in _MODULES:
        raise UnknownName("channel", name, _MODULES)
    return _load(name)


def traits(name: str) -> Traits:
    """What is known of a channel without its settings; what has no adapter, as ``api``, can do none of it."""
    return _TRAITS.get(name, _NO_TRAITS)


def forget() -> None:
    """Read settings anew at the next ``get``."""
    _load.cache_clear()


@cache
def _load(name: str) -> Channel:
    adapter: Channel = import_module(_MODULES[name]).channel()
    return adapter
