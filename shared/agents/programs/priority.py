"""How programs give way to the functions of the same machine, for which platforms wait.

A program inherits the niceness of dispatch. Where the kernel groups processes by session (``sched_autogroup_enabled``,
https://man7.org/linux/man-pages/man7/sched.7.html), niceness counts within a session only, and each program is the
leader of one: so its whole session gets the same niceness.
"""

import os


def give_way(session: int) -> bool:
    """Give the *session*, a process id, the niceness of this process. Whether nothing is left to do.

    False: the kernel wants a pause, because it takes ten such changes a second from all users but root. A session that
    is gone, a kernel without groups, and a program of another user leave nothing to do.
    """
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    if niceness == 0:
        return True
    try:
        group = os.open(f"/proc/{session}/autogroup", os.O_WRONLY)
        try:
            os.write(group, b"%d" % niceness)
        finally:
            os.close(group)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
