"""A day's soak: 24 virtual hours of mixed traffic on real processes, and whether anything grows.

``make soak`` runs it in 25 minutes, ``python -m tests.soak --minutes 120`` in two hours. The rule by which a figure is
flat is in :mod:`tests.soak.trend`.
"""
