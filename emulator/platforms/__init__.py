"""Fake Telegram and fake Discord: they behave like the real ones, as far as the reference of each says how."""

from emulator.platforms.config import Clock, Flood, PlatformsConfig, SystemClock
from emulator.platforms.server import Platforms

__all__ = ["Clock", "Flood", "Platforms", "PlatformsConfig", "SystemClock"]
