"""Real processes for tests: their lines are read as they come, and they end with the test."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE_S = 90.0  # enough for a busy machine


class Process:
    """A child process whose lines are kept."""

    def __init__(self, *argv, environment, pass_fds=(), cwd=ROOT):
        self._popen = subprocess.Popen(
            [str(word) for word in argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env={"PATH": os.environ["PATH"], **environment},
            pass_fds=pass_fds,
            start_new_session=True,
        )
        self.out: list[str] = []
        self.err: list[str] = []
        self._news = threading.Condition()
        self._readers = [
            threading.Thread(target=self._read, args=(self._popen.stdout, self.out)),
            threading.Thread(target=self._read, args=(self._popen.stderr, self.err)),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream, lines):
        for line in stream:
            with self._news:
                lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def events(self, name):
        """The log lines of this event, so far."""
        found = [json.loads(line) for line in self.out]
        return [line for line in found if line.get("event") == name]

    def wait_for(self, name, count=1):
        """Wait until the event was logged *count* times; returns them."""
        with self._news:
            found = self._news.wait_for(
                lambda: (
                    len(self.events(name)) >= count
                    or not any(
                        reader.is_alive() for reader in self._readers if reader is not threading.current_thread()
                    )
                ),
                PATIENCE_S,
            )
        events = self.events(name)
        assert found, f"no {name} in {PATIENCE_S} s: {self.out} {self.err}"
        assert len(events) >= count, f"no {name}: {self.out} {self.err}"
        return events

    @property
    def pid(self):
        return self._popen.pid

    def signal(self, number):
        self._popen.send_signal(number)

    def end(self):
        """Wait for its end; returns the exit code."""
        code = self._popen.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join()
        return code

    def stop(self, number):
        """Send the signal and wait; returns the exit code and the seconds that it took."""
        begun = time.monotonic()
        self.signal(number)
        return self.end(), time.monotonic() - begun

    def close(self):
        if self._popen.poll() is None:
            os.killpg(self._popen.pid, signal.SIGKILL)  # with its children: it leads its own group
        self.end()
        self._popen.stdout.close()
        self._popen.stderr.close()


def until(condition, what):
    """Wait for *condition*, and return what it found."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.01)
    return found


def python(*argv, **options):
    return Process(sys.executable, *argv, **options)


def kept_port():
    """A port that refuses connections and that the kernel gives to nobody, and the socket that keeps it.

    A server that asks for this port can listen on it, whether the socket is open or not.
    """
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    return sock, sock.getsockname()[1]


def listening_socket():
    sock = socket.create_server(("127.0.0.1", 0))
    return sock, sock.getsockname()[1]
