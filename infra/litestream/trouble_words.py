"""What Litestream 0.5.17 says of its own trouble, in its log and in its answers."""

CANT_READ = "db sync"  # in an answer: trouble between it and the database, and not with the replica
_OWN_TROUBLE = ('"msg":"sync error"', '"msg":"disk full')  # in its log: trouble with the database or its own files
_CANT_ASK = "check database behind replica"  # such a line is about the replica after all, and from before it has begun


def is_own_trouble(line: str) -> bool:
    """Whether Litestream says in its log that it could not read the database, or write its own files."""
    return any(trouble in line for trouble in _OWN_TROUBLE) and _CANT_ASK not in line
