"""A mart: the history of a Postroom as Parquet files, partitioned by day, with a manifest.

``publish`` brings it to one pinned position of a replica. It keeps what the replica prunes. Spark, DuckDB and pandas
read the files; readers see one whole generation of them, before a run or after it.
"""
