"""Agents: the prompt, and the providers that answer it."""
