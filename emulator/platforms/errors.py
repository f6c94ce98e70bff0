"""The refusal that tests and the chat page get when they want of people what nobody can do on their platform."""


class ActionRefused(ValueError):
    """What was asked for can't be done on this platform; the message says why."""
