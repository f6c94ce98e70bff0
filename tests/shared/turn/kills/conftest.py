from tests.serving import environment

__all__ = ["environment"]
