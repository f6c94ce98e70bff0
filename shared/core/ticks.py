"""Ticks: scheduled calls of a function, sent as ``POST /tick``."""

TICK_HEADER = "X-Postroom-Tick"
"""Carries the secret that ticker and functions share."""
