"""Looks up channel adapters by name. The name comes from a URL, so it can only select from this list."""

from functools import cache
from importlib import import_module

from shared.channels.base import Channel, Traits
from shared.channels.manifest import Manifest
from shared.core.errors import UnknownName

# One entry a channel: its module, and what it can do. The traits stand here because routing and turns need them where
# the settings of the adapter are missing.
_CHANNELS = {
    "discord": ("shared.channels.discord.channel", Traits(has_threads=True, direct_by_sender=False, has_buttons=True)),
    "telegram": ("shared.channels.telegram.channel", Traits(has_threads=True, direct_by_sender=True, has_buttons=True)),
}
_NO_TRAITS = Traits(has_threads=False, direct_by_sender=False, has_buttons=False)
NAMES = tuple(_CHANNELS)


@cache
def get(name: str) -> Channel:
    """The adapter called *name*, imported and configured on first use, then kept for the life of the process.

    Raises:
        UnknownName: no such channel.
        ConfigInvalid: the channel lacks a setting; the message names it.
    """
    if name not in _CHANNELS:
        raise UnknownName("channel", name, _CHANNELS)
    module, _ = _CHANNELS[name]
    adapter: Channel = import_module(module).channel()
    return adapter


def manifest(name: str) -> Manifest:
    """How the channel is set up; it needs none of its settings.

    Raises:
        UnknownName: no such channel.
    """
    if name not in _CHANNELS:
        raise UnknownName("channel", name, _CHANNELS)
    module, _ = _CHANNELS[name]
    found: Manifest = import_module(module).MANIFEST
    return found


def import_all() -> None:
    """Import every adapter, for a caller that asks which settings there are; it needs none of them."""
    for module, _ in _CHANNELS.values():
        import_module(module)


def traits(name: str) -> Traits:
    """What a channel can do, known without its settings. A channel without an adapter, such as ``api``, has none."""
    return _CHANNELS[name][1] if name in _CHANNELS else _NO_TRAITS
