"""The functions, one to a module."""

import gc

# While a function loads, nearly all new objects stay: collections would take a tenth of its start. The runner sets what
# holds while it serves.
gc.set_threshold(50_000)
