"""Agents beyond the one that repeats: slow, with a budget or a bad model, in need of a yes, in a team."""
