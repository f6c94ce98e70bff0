"""Postroom proves itself: production's processes are broken on purpose while people write, and a ledger must balance.

``emulator prove`` does it for users, ``make crash`` for each change. Three witnesses must agree, in :mod:`promises`:
the rows, the journal that the agents of a run write (:mod:`agent`), and the platform (:mod:`platform`).
"""
