"""An agent that is watched from outside: the program of the ``command`` provider in the crash runs.

``python -I -S agent.py FOLDER CONCURRENCY``. Each turn appends one line when it starts and one before it says anything,
each in a single write, so that the order of the lines is the order of what happened in all processes. A turn holds a
lock of its session and one of its agent's places while it lives: the kernel frees them at its death, so a lock that
can't be had is a turn that runs beside this one, even where nobody lives to write it down.

What a turn does is in the text of the first message: ``c03 0042 | fail:0.1 kill ok`` fails, dies, and then answers, one
word a run, the last one again and again. Without a bar it answers at once.
"""

import contextlib
import fcntl
import json
import os
import resource
import signal
import sys
import time

LOCK_PATIENCE_S = 5.0  # a process that was killed is gone when it is next scheduled


def main() -> None:
    folder, concurrency = sys.argv[1], int(sys.argv[2])
    # What a full disk is made of must not be ours: the limit of dispatch is handed down to its children.
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    turn = json.load(sys.stdin)
    asked = [message for message in turn["messages"] if not message["is_context"]]
    journal = os.open(f"{folder}/turns", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(what: str, **facts: object) -> None:
        line = {"what": what, "pid": os.getpid(), "session": turn["session"], "agent": turn["agent"]}
        line |= {"ids": [message["id"] for message in turn["messages"]], "at_ns": time.monotonic_ns(), **facts}
        os.write(journal, json.dumps(line).encode() + b"\n")

    texts = [message["text"] for message in asked]
    note("start", texts=texts, attempt=turn["attempt"])
    places = [f"{turn['agent']}-{place}" for place in range(concurrency)]
    kept = [_lock(folder, [turn["session"]]), _lock(folder, places)]  # open until we end
    if None in kept:
        note("overlap", of="session" if kept[0] is None else "agent")

    act, _, number = _word(folder, texts[0]).partition(":")
    if act in ("ok", "fail", "dead", "silent"):
        time.sleep(float(number or 0))
    if act == "hang":
        time.sleep(600)
    note("end", act=act)
    if act in ("kill", "poison"):
        os.kill(os.getpid() if act == "kill" else os.getppid(), signal.SIGKILL)
        time.sleep(600)
    if act == "ok":
        for message in asked:
            _say(type="text", text=f"re {_key(message['text'])}", answers=message["id"])
    _end(act, number)


def _end(act: str, number: str) -> None:
    match act:
        case "ok":
            _say(type="result")
        case "fail":
            _say(type="error", message="planned", retryable=True)
        case "limit":
            _say(type="error", message="planned wait", wait_ms=int(number))
        case "dead":
            _say(type="error", message="planned end", retryable=False)
        case "exit":
            sys.exit(int(number))
        case "garbage":
            os.write(1, b'\xff\xfe{"type": "result"\n[1, 2]\n' + b"\x00" * 10 + b"\n")
            sys.exit(1)


def _key(text: str) -> str:
    """``c03 0042``: what the checks know a message by."""
    return text.partition("|")[0].strip()


def _word(folder: str, text: str) -> str:
    """What this run of the message does."""
    plan = text.partition("|")[2].split() or ["ok"]
    handle = os.open(f"{folder}/runs-{_key(text)}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    run = os.fstat(handle).st_size
    os.write(handle, b".")
    os.close(handle)
    return plan[min(run, len(plan) - 1)]


def _lock(folder: str, names: list[str]) -> int | None:
    """The first of these that is free."""
    until = time.monotonic() + LOCK_PATIENCE_S
    while True:
        for name in names:
            handle = os.open(f"{folder}/lock-{name}", os.O_RDWR | os.O_CREAT, 0o600)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return handle
            os.close(handle)
        if time.monotonic() > until:
            return None
        time.sleep(0.005)


def _say(**event: object) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


main()
