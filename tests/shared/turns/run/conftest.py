from tests.serving import environment, until

__all__ = ["environment", "until"]
