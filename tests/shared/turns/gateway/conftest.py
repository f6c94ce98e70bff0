from tests.serving import until

__all__ = ["until"]
