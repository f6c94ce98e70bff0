"""What a program on the leash may not ask of the kernel, and what it may."""

import asyncio
import errno
import json
import os
import struct
import sys

import pytest

from shared.agents.programs import containment, syscalls
from shared.agents.programs.containment import ProgramCommand
from shared.agents.programs.process import Program
from shared.agents.programs.sandboxes import Sandboxes

NEW_USER, NEW_NET = 0x10000000, 0x40000000
UNIX, INET, INET6, NETLINK, PACKET, ALG, VSOCK = 1, 2, 10, 16, 17, 38, 40
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
SOCKET = {"x86_64": 41, "aarch64": 198}
CLONE = {"x86_64": 56, "aarch64": 220}
UNSHARE = {"x86_64": 272, "aarch64": 97}
PTRACE = {"x86_64": 101, "aarch64": 117}
SECCOMP = {"x86_64": 317, "aarch64": 277}
CLONE3, IO_URING_SETUP, OPENAT2 = 435, 425, 437
ALLOWED = 0


def decides(machine, number, *arguments, audit=None, **options):
    """What the filter says of a call: 0, or the number of the error. Runs the filter as the kernel does."""
    data = struct.pack("<iIQ6Q", number, audit or AUDIT[machine], 0, *arguments, *[0] * (6 - len(arguments)))
    steps = list(struct.iter_unpack("<HBBI", syscalls.program(machine, **options)))
    position = held = 0
    while True:
        code, yes, no, value = steps[position]
        position += 1
        match code:
            case 0x20:
                held = struct.unpack_from("<I", data, value)[0]
            case 0x06:
                return value & 0xFFFF
            case 0x15:
                position += yes if held == value else no
            case 0x35:
                position += yes if held >= value else no
            case 0x45:
                position += yes if held & value else no


@pytest.mark.parametrize("machine", AUDIT)
def test_the_filter_refuses_new_namespaces_and_lets_processes_and_threads_start(machine):
    threads = 0x3D0F00  # the flags of a thread of glibc
    assert decides(machine, CLONE[machine], threads) == ALLOWED
    assert decides(machine, CLONE[machine], 17) == ALLOWED
    assert decides(machine, CLONE[machine], NEW_USER | 17) == errno.EPERM
    assert decides(machine, UNSHARE[machine], 0x400) == ALLOWED  # CLONE_FILES
    assert decides(machine, UNSHARE[machine], NEW_NET) == errno.EPERM
    assert decides(machine, CLONE3) == errno.ENOSYS, "glibc then asks clone, whose flags can be read"


@pytest.mark.parametrize("machine", AUDIT)
def test_the_filter_lets_a_program_have_sockets_of_files_and_the_internet_alone(machine):
    families = [(UNIX, 1, 0), (INET, 1, 6), (INET6, 2, 0), (NETLINK, 3, 0)]
    foreign = [(NETLINK, 3, 12), (PACKET, 3, 0), (ALG, 5, 0), (VSOCK, 1, 0), (UNIX + 2**8, 1, 0)]
    assert {decides(machine, SOCKET[machine], *each) for each in families} == {ALLOWED}
    assert {decides(machine, SOCKET[machine], *each) for each in foreign} == {errno.EAFNOSUPPORT}


@pytest.mark.parametrize("machine", AUDIT)
def test_the_filter_knows_calls_by_other_numbers_and_lets_a_program_hold_itself_in(machine):
    assert decides(machine, PTRACE[machine]) == errno.EPERM
    assert decides(machine, 1, audit=0x40000003) == errno.EPERM, "the numbers of 32-bit programs"
    assert decides(machine, 0x40000000 + PTRACE[machine]) == errno.EPERM, "x32"
    assert decides(machine, SECCOMP[machine]) == ALLOWED
    assert decides(machine, OPENAT2) == ALLOWED
    assert decides(machine, IO_URING_SETUP) == errno.ENOSYS


@pytest.mark.parametrize("machine", AUDIT)
def test_a_program_that_makes_sandboxes_may_have_namespaces_and_no_more(machine):
    assert decides(machine, CLONE[machine], NEW_USER | 17, makes_sandboxes=True) == ALLOWED
    assert decides(machine, UNSHARE[machine], NEW_NET, makes_sandboxes=True) == ALLOWED
    assert decides(machine, PTRACE[machine], makes_sandboxes=True) == errno.EPERM
    assert decides(machine, SOCKET[machine], VSOCK, 1, 0, makes_sandboxes=True) == errno.EAFNOSUPPORT


def test_a_machine_whose_numbers_are_unknown_has_no_filter():
    assert syscalls.program("riscv64") == b""


# The arguments are such that the kernel without the filter would answer otherwise.
ASKS = """
import ctypes, errno, json, os, socket, threading
libc = ctypes.CDLL(None, use_errno=True)
answers = {}
def ask(name, *words):
    answers[name] = errno.errorcode[ctypes.get_errno()] if libc.syscall(*words) < 0 else "allowed"
def open_socket(name, *words):
    try:
        socket.socket(*words).close()
        answers[name] = "allowed"
    except OSError as error:
        answers[name] = errno.errorcode[error.errno]
x86 = os.uname().machine == "x86_64"
ask("a user namespace", 272 if x86 else 97, 0x10000000)
ask("a keyring", 250 if x86 else 219, 0, -3, 0)
ask("tracing", 101 if x86 else 117, 0, 0, 0, 0)
ask("userfaultfd", 323 if x86 else 282, 0xffff)
ask("io_uring", 425, 0, 0)
open_socket("the host of a virtual machine", 40, 1, 0)
open_socket("the kernel's crypto", 38, 5, 0)
open_socket("network interfaces", 16, 3, 0)
open_socket("audit", 16, 3, 9)
thread = threading.Thread(target=print)
thread.start()
thread.join()
print(json.dumps(answers))
"""
ANSWERS = {
    "a user namespace": "EPERM",
    "a keyring": "EPERM",
    "tracing": "EPERM",
    "userfaultfd": "EPERM",
    "io_uring": "ENOSYS",
    "the host of a virtual machine": "EAFNOSUPPORT",
    "the kernel's crypto": "EAFNOSUPPORT",
    "network interfaces": "allowed",
    "audit": "EAFNOSUPPORT",
}


@pytest.mark.skipif(not containment.available().is_leash, reason="there is no leash on this host")
@pytest.mark.parametrize("session", [None, "a"], ids=["a sandbox for one turn", "a sandbox for many"])
def test_bubblewrap_holds_a_program_to_the_filter(tmp_path, session):
    (tmp_path / "agent").mkdir()
    words = [sys.executable, "-I", "-c", ASKS]
    shown = containment.readable_paths(words, [], {}, [])
    command = ProgramCommand(words, tmp_path / "agent", {"PATH": os.environ["PATH"]}, shown, session=session)

    async def go():
        sandboxes = Sandboxes(tmp_path / "sandboxes")
        program = await Program.start(command, containment.available(), line_limit=100_000, sandboxes=sandboxes)
        said, errors = await program.stdout.read(), await program.stderr.read()
        await program.end()
        await sandboxes.close()
        return json.loads(said), errors

    assert asyncio.run(go()) == (ANSWERS, b"")
