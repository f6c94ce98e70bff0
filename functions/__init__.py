"""The functions, one to a module."""

import gc
import os

# While a function loads, nearly all new objects stay: collections would take a tenth of its start. The runner sets what
# holds while it serves.
gc.set_threshold(50_000)

# Pydantic would read what every installed package says of itself, to look for its plugins: 7 ms of each start. Whoever
# wants a plugin sets the variable to an empty text.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
