"""The parts of the supervisor (``infra/litestream/supervisor.py``), each with what it decides.

``process_life.py``: when Litestream starts again; ``doubt.py``: what is held against it; ``looks.py``: whether it
replicates; ``lease_upkeep.py``: whether it may, and whether functions may rely on it.
"""
