from tests.serving import environment, serving, until

__all__ = ["environment", "serving", "until"]
