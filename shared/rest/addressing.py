"""Moved: see ``shared.addressing``."""

from shared.addressing import Team, addressee

__all__ = ["Team", "addressee"]
