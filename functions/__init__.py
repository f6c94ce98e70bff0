"""The functions, one to a module."""
