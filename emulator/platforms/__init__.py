"""Fake Telegram and fake Discord: they behave like the real ones, as far as the reference of each says how."""

from emulator.platforms.config import Clock, PlatformsConfig, RateLimit, SystemClock
from emulator.platforms.server import Platforms

__all__ = ["Clock", "Platforms", "PlatformsConfig", "RateLimit", "SystemClock"]
