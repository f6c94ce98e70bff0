"""The error for an act that no person can do on the platform, requested by a test or the chat page."""


class ActionRefused(ValueError):
    """No person can do this on the platform; the message says why."""
