"""Fake platforms, which behave as the documentation of the real ones says."""

from emulator.platforms.config import Clock, PlatformsConfig, RateLimit, SystemClock
from emulator.platforms.server import Platforms

__all__ = ["Clock", "Platforms", "PlatformsConfig", "RateLimit", "SystemClock"]
