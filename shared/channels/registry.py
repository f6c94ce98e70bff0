"""Looks up channel adapters by account. The platform in its name can only select from this list.

Several accounts of a platform have an adapter each. Which accounts there are, ``shared.db.roster.accounts`` knows.
"""

import sys
from functools import cache
from importlib import import_module

from shared.channels.base import Channel, Traits
from shared.channels.discord.abilities import TRAITS as TRAITS_OF_DISCORD
from shared.channels.manifest import Manifest
from shared.channels.telegram.abilities import TRAITS as TRAITS_OF_TELEGRAM
from shared.core import accounts
from shared.core.errors import UnknownName

# One entry a platform: its module, and what it can do. The traits stand here because routing and turns need them where
# the settings of the adapter are missing.
_CHANNELS = {
    "discord": ("shared.channels.discord.channel", TRAITS_OF_DISCORD),
    "telegram": ("shared.channels.telegram.channel", TRAITS_OF_TELEGRAM),
}
_NO_TRAITS = Traits(has_threads=False, direct_by_sender=False, has_buttons=False)
PLATFORMS = tuple(_CHANNELS)


@cache
def get(account: str) -> Channel:
    """The adapter of the account, imported and configured on first use, then kept for the life of the process.

    Raises:
        UnknownName: there is no such platform.
        ConfigInvalid: the account lacks a setting; the message names it.
    """
    platform = accounts.platform_of(account)
    if platform not in _CHANNELS:
        raise UnknownName("channel", account, _CHANNELS)
    module, _ = _CHANNELS[platform]
    adapter: Channel = import_module(module).channel(account)
    return adapter


def is_adapted(channel: str) -> bool:
    """Whether an adapter of ours serves the channel; otherwise a client over REST does, or it is one of our own."""
    return accounts.platform_of(channel) in _CHANNELS


def manifest(channel: str) -> Manifest:
    """How an account of the channel's platform is set up; it needs none of its settings.

    Raises:
        UnknownName: there is no such platform.
    """
    platform = accounts.platform_of(channel)
    if platform not in _CHANNELS:
        raise UnknownName("channel", channel, _CHANNELS)
    module, _ = _CHANNELS[platform]
    found: Manifest = import_module(module).MANIFEST
    return found


def are_imported() -> bool:
    """Whether no adapter is still to be imported, which takes 0.1 s."""
    return all(module in sys.modules for module, _ in _CHANNELS.values())


def import_all() -> None:
    """Import every adapter, for a caller that asks which settings there are; it needs none of them."""
    for module, _ in _CHANNELS.values():
        import_module(module)


def traits(channel: str) -> Traits:
    """What a channel can do, known without its settings. A channel without an adapter, such as ``api``, has none."""
    found = _CHANNELS.get(accounts.platform_of(channel))
    return found[1] if found else _NO_TRAITS
