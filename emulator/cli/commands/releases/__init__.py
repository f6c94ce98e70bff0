"""A database between two releases: ``emulator upgrade`` and ``emulator rollback``."""
