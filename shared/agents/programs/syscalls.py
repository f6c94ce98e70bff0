"""Which system calls a program on the leash may make: a filter that the kernel runs (seccomp(2)), given to bubblewrap.

A program works with files, processes, threads and sockets of its own. It needs no namespaces, mounts, keyrings, BPF or
io_uring, and most ways from a sandbox into the kernel go through one of them. So these are refused, as on a kernel that
does not know them, and all else is allowed: also ``seccomp`` and Landlock, with which a program may hold itself in.
Codex holds its shell in by a bubblewrap of its own: such a program may also make namespaces and mounts.

The numbers are those of Linux: ``asm/unistd_64.h`` and ``asm-generic/unistd.h``.
"""

import errno
import os
import platform
import struct
from collections.abc import Mapping
from typing import NamedTuple

from shared.agents.programs import pipes


class _Machine(NamedTuple):
    """The kernel's number of an architecture (``linux/audit.h``), and the numbers of the calls that it has."""

    audit: int
    calls: Mapping[str, int]


_X86_64 = {
    "clone": 56, "unshare": 272, "setns": 308, "socket": 41, "ioctl": 16,
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
    "keyctl": 250, "add_key": 248, "request_key": 249, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323,
    "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161,
    "kexec_load": 246, "kexec_file_load": 320, "init_module": 175, "finit_module": 313, "delete_module": 176,
    "reboot": 169, "swapon": 167, "swapoff": 168, "acct": 163, "quotactl": 179, "syslog": 103, "vhangup": 153,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "fanotify_init": 300,
    "iopl": 172, "ioperm": 173, "modify_ldt": 154, "uselib": 134,
}  # fmt: skip
_AARCH64 = {
    "clone": 220, "unshare": 97, "setns": 268, "socket": 198, "ioctl": 29,
    "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
    "keyctl": 219, "add_key": 217, "request_key": 218, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282,
    "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51,
    "kexec_load": 104, "kexec_file_load": 294, "init_module": 105, "finit_module": 273, "delete_module": 106,
    "reboot": 142, "swapon": 224, "swapoff": 225, "acct": 89, "quotactl": 60, "syslog": 116, "vhangup": 58,
    "name_to_handle_at": 264, "open_by_handle_at": 265, "fanotify_init": 262,
}  # fmt: skip
_SINCE_2019 = {  # the same numbers on every architecture
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "clone3": 435, "pidfd_getfd": 438, "mount_setattr": 442, "quotactl_fd": 443, "open_tree_attr": 467,
}  # fmt: skip
_MACHINES = {
    "x86_64": _Machine(0xC000003E, _X86_64 | _SINCE_2019),
    "aarch64": _Machine(0xC00000B7, _AARCH64 | _SINCE_2019),
}

# Programs go on without these: the C library asks `clone` instead, whose flags the filter can read.
_UNKNOWN = frozenset({"clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"})

_OF_SANDBOXES = frozenset({"clone", "unshare", "mount", "umount2", "pivot_root"})  # what bubblewrap itself calls
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK, _NETLINK_ROUTE = 1, 2, 10, 16, 0
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # type into a terminal
_X32 = 0x40000000  # a second set of numbers on x86_64

# Classic BPF: linux/bpf_common.h; struct seccomp_data: linux/seccomp.h
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


class _Step(NamedTuple):
    """One instruction: where the comparison holds *yes* steps are skipped, else *no*."""

    code: int
    value: int
    yes: int = 0
    no: int = 0


_ALLOWED = _Step(_RETURN, _ALLOW)


def program(machine: str = platform.machine(), *, makes_sandboxes: bool = False) -> bytes:
    """The filter as bubblewrap takes it; empty for a machine whose numbers are not here."""
    known = _MACHINES.get(machine)
    if known is None:
        return b""
    with_flags = {name: _unless_any(_NEW_NAMESPACES) for name in ("clone", "unshare")}
    looked_into = with_flags | {"socket": _known_families(), "ioctl": _no_typing()}
    steps = [
        _Step(_LOAD, _ARCHITECTURE),
        *(_Step(_IF_EQUAL, known.audit, yes=1), _refused(errno.EPERM)),
        _Step(_LOAD, _NUMBER),
        *(_Step(_IF_AT_LEAST, _X32, no=1), _refused(errno.EPERM)),
    ]
    for name, number in known.calls.items():
        if makes_sandboxes and name in _OF_SANDBOXES:
            continue
        answer = looked_into.get(name) or [_refused(errno.ENOSYS if name in _UNKNOWN else errno.EPERM)]
        steps += [_Step(_IF_EQUAL, number, no=len(answer)), *answer]
    return b"".join(struct.pack("HBBI", step.code, step.yes, step.no, step.value) for step in (*steps, _ALLOWED))


def opened(*, makes_sandboxes: bool = False) -> int:
    """The filter to read once, as a descriptor for a child."""
    ours, theirs = os.pipe()
    try:
        os.write(theirs, program(makes_sandboxes=makes_sandboxes))
        return pipes.out_of_the_way(ours)
    finally:
        os.close(ours)
        os.close(theirs)


def _refused(number: int) -> _Step:
    return _Step(_RETURN, _ERRNO | number)


def _argument(index: int) -> _Step:
    return _Step(_LOAD, _ARGUMENTS + 8 * index)  # its lower half: the machines are little-endian


def _unless_any(flags: int) -> list[_Step]:
    return [_argument(0), _Step(_IF_ANY_BIT, flags, no=1), _refused(errno.EPERM), _ALLOWED]


def _known_families() -> list[_Step]:
    """Sockets of files and the internet, and the kernel's list of network interfaces, which resolvers read.

    A family such as AF_VSOCK knows no network namespace: it leads to the host of a virtual machine.
    """
    known = [step for family in (_AF_UNIX, _AF_INET, _AF_INET6) for step in (_Step(_IF_EQUAL, family, no=1), _ALLOWED)]
    routes = [_argument(2), _Step(_IF_EQUAL, _NETLINK_ROUTE, no=1), _ALLOWED]
    end = _refused(errno.EAFNOSUPPORT)
    return [_argument(0), *known, _Step(_IF_EQUAL, _AF_NETLINK, no=len(routes)), *routes, end]


def _no_typing() -> list[_Step]:
    end = _refused(errno.EPERM)
    refused = [step for code in (_TIOCSTI, _TIOCLINUX) for step in (_Step(_IF_EQUAL, code, no=1), end)]
    return [_argument(1), *refused, _ALLOWED]
