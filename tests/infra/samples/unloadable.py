"""A function that can't be loaded: its import does not exist."""

import a_module_that_nobody_has  # noqa: F401
