"""How many connections a server may have, by the file descriptors of its process."""

import resource

MOST_CONNECTIONS = 1000


def connection_limit(servers: int = 1) -> int:
    """The share of one of *servers* in half of the file descriptors that this process may open; 1000 at most.

    The other half is for files and outgoing calls. A process without free descriptors can't accept, and its clients
    see their connections reset without a line in the log.
    """
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(1, min(MOST_CONNECTIONS, allowed // 2 // servers))
