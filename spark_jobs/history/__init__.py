"""The past, from replicas alone: what changed between two positions, and the story of one message.

None of it needs a Spark session: SQLite compares two restored copies. Spark reads the same changes with the options
``changes_from`` and ``changes_to`` of ``format("litestream")``.
"""
