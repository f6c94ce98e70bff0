"""Whether the fakes limit calls: always, as the real platforms do, unless a load test switches the limits off.

The switch is in the database of the fakes, so it survives a restart.
"""

from emulator.platforms.config import PlatformsConfig
from emulator.platforms.store import PlatformStore

_KEY = "limits"


def are_on(config: PlatformsConfig, store: PlatformStore) -> bool:
    return config.limits and store.get(_KEY) != "off"


def switch(store: PlatformStore, *, is_on: bool) -> None:
    store.put(_KEY, "on" if is_on else "off")
