"""What Litestream 0.5.17 says of its own trouble, in its log and in its answers."""

CANT_READ = "db sync"  # in an answer: trouble between it and the database, and not with the replica
_OWN_TROUBLE = ('"msg":"sync error"', '"msg":"disk full')  # in its log: trouble with the database or its own files
_HOLE = "non-contiguous transaction ids"  # in its log, at a compaction: a file is gone from the middle of the prefix
_CANT_ASK = "check database behind replica"  # such a line is about the replica after all, and from before it has begun


def is_own_trouble(line: str) -> bool:
    """Whether Litestream says in its log that it could not read the database, or write its own files.

    Or that its prefix has a hole: no restore comes past that, although every later commit reaches the bucket.
    """
    if _HOLE in line:
        return True
    return any(trouble in line for trouble in _OWN_TROUBLE) and _CANT_ASK not in line
