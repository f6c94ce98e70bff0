"""``spark.readStream.format("litestream")``: follows the tables that only grow, as they replicate.

An offset is (epoch, position, row): ``meta.epoch`` of the database, the pinned position of the replica that has the
rows, and the id of the last row that was read. SQLite has one writer, so ids grow in the order of the commits.
"""
