"""The agent of a run, a program of the ``command`` provider that writes a journal.

``python -I -S agent.py FOLDER CONCURRENCY``. Each turn appends one line when it starts and one before it says anything,
each in a single write, so the order of the lines is the order of the turns in all processes. While it lives, a turn
holds a lock of its session and a lock of one place of its agent. The kernel frees them at its death, so a lock that is
taken proves that another turn runs beside this one, even if that turn never writes a line.

The text of the first message says what a turn does: ``c03 0042 | fail:0.1 kill ok`` fails, dies, and then answers, one
word for each run; the last word repeats. Without a bar it answers at once. ``files`` answers with files.
"""

import contextlib
import fcntl
import json
import os
import resource
import signal
import sys
import time

LOCK_PATIENCE_S = 5.0  # a killed process is gone when it is next scheduled


def main() -> None:
    folder, concurrency = sys.argv[1], int(sys.argv[2])
    # A full disk is a limit on the size of files; dispatch hands it down, and the journal must not have it.
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    turn = json.load(sys.stdin)
    written = [message for message in turn["messages"] if message["kind"] != "system"]  # else it is Postroom's own note
    asked = [message for message in written if not message["is_context"]]
    run = os.urandom(6).hex()  # not the process id, which another namespace has too
    journal = os.open(f"{folder}/turns", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(what: str, **facts: object) -> None:
        line = {"what": what, "run": run, "session": turn["session"], "agent": turn["agent"]}
        line |= {"ids": [message["id"] for message in written], "at_ns": time.monotonic_ns(), **facts}
        os.write(journal, json.dumps(line).encode() + b"\n")

    texts = [message["text"] for message in asked]
    note("start", texts=texts, attempt=turn["attempt"])
    places = [f"{turn['agent']}-{place}" for place in range(concurrency)]
    kept = [_lock(folder, [turn["session"]]), _lock(folder, places)]  # open until this process ends
    if None in kept:
        note("overlap", of="session" if kept[0] is None else "agent")

    act, _, number = _word(folder, texts[0]).partition(":")
    if act in ("ok", "fail", "dead", "silent"):
        time.sleep(float(number or 0))
    if act == "hang":
        time.sleep(600)
    note("end", act=act, number=number)
    if act == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if act == "poison":
        time.sleep(600)  # the run sees the journal, and kills dispatch
    if act in ("ok", "files"):
        for message in asked:
            files = _files(turn["session"], message["text"]) if act == "files" else ""
            _say(type="text", text=f"re {_key(message['text'])}{files}", answers=message["id"])
    _end(act, number)


def _end(act: str, number: str) -> None:
    match act:
        case "ok" | "files":
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


def _files(session: str, text: str) -> str:
    """Write two pictures and two documents into the outbox; the tags that send them."""
    first, tags = _key(text).replace(" ", "-"), []
    for number in range(4):
        name = f"{first}-{number}.{'png' if number < 2 else 'txt'}"
        handle = os.open(f"sessions/{session}/outbox/{name}", os.O_WRONLY | os.O_TRUNC | os.O_CREAT, 0o600)
        os.write(handle, (b"\x89PNG\r\n\x1a\n" if number < 2 else b"") + name.encode())
        os.close(handle)
        tags.append(f"\n[send_file: {name}]")
    return "".join(tags)


def _key(text: str) -> str:
    """``c03 0042``: the name of a message in the checks."""
    return text.partition("|")[0].strip()


def _word(folder: str, text: str) -> str:
    """The word for this run of the message."""
    plan = text.partition("\n")[0].partition("|")[2].split() or ["ok"]  # of an album, its first picture
    handle = os.open(f"{folder}/runs-{_key(text)}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    run = os.fstat(handle).st_size
    os.write(handle, b".")
    os.close(handle)
    return plan[min(run, len(plan) - 1)]


def _lock(folder: str, names: list[str]) -> int | None:
    """The first free lock of *names*; None if there is none within the patience."""
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


if __name__ == "__main__":
    main()
