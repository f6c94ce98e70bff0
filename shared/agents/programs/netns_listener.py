"""Makes listening sockets inside sandboxes, for dispatch, which accepts the connections itself.

Run by ``python3 -I -S`` with the standard library alone. Descriptor 0 is a socket of dispatch. Each message there is a
port, with the descriptor of a network namespace. The answer comes in the same order: an empty word with the descriptor
of a socket that listens on 127.0.0.1 there, or the reason why there is none. The process ends with dispatch.

A process that has entered a namespace can't come back, so each request has a child of its own.
"""

import _socket  # socket imports enum and selectors, which take longer than all the rest
import array
import ctypes
import fcntl
import os

_DISPATCH = 0
_BACKLOG = 64
_NS_GET_USERNS = 0xB701  # ioctl_ns(2): the user namespace that owns a namespace
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_IP_FREEBIND = 15  # the address may not be there yet: bubblewrap sets the loopback interface up meanwhile
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Answer until dispatch closes its end."""
    line = _socket.socket(fileno=_DISPATCH)
    while True:
        port, ancillary, _, _ = line.recvmsg(16, _socket.CMSG_SPACE(4))
        if not port:
            return
        namespace = array.array("i")
        namespace.frombytes(ancillary[0][2][:4])
        child = os.fork()
        if child == 0:
            _answer(line, namespace[0], int(port))
            os._exit(0)
        os.close(namespace[0])
        _, status = os.waitpid(child, 0)
        if status != 0:
            line.sendmsg([b"the process that enters the sandbox ended"])


def _answer(line: _socket.socket, namespace: int, port: int) -> None:
    try:
        listening = _listen(namespace, port)
    except OSError as error:
        line.sendmsg([(error.strerror or "no reason given").encode()])
    else:
        descriptor = array.array("i", [listening.fileno()])
        line.sendmsg([b"\n"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptor)])


def _listen(namespace: int, port: int) -> _socket.socket:
    owner = fcntl.ioctl(namespace, _NS_GET_USERNS)
    _enter(owner, _CLONE_NEWUSER)
    _enter(namespace, _CLONE_NEWNET)
    listening = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listening.setsockopt(_socket.IPPROTO_IP, _IP_FREEBIND, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(_BACKLOG)
    return listening


def _enter(namespace: int, kind: int) -> None:
    if _libc.setns(namespace, kind) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    main()
