"""The functions, one to a module."""

import gc

# While a function loads, nearly all new objects stay: collections would take a tenth of its start.
gc.set_threshold(10_000)
