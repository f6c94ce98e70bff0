"""The report: one HTML page that says how the postroom is doing, made from what the daily jobs write.

``outputs`` brings the jobs to the mart and reads their rows, ``judgement`` judges them,
``sections`` lays out plots and tables (``charts`` and ``graph`` have their geometry), ``page`` writes the HTML.
"""
