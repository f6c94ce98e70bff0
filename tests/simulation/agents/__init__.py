"""Agents beyond the one that repeats: with a model that hangs or kills, with a budget, in need of a yes, in a team."""
