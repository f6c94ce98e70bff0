from tests.serving import day_of_the_events, environment, serving, until

__all__ = ["day_of_the_events", "environment", "serving", "until"]
