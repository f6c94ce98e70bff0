"""Deliberate faults in what programs have of the API: messages under ids of their own, and the stream of events."""

from tests.simulation.mutants.mutant import Mutant

_STREAM = "shared/rest/resources/stream.py"

API = (
    Mutant(
        "stores-again-what-a-program-repeats",
        "shared/db/queue/messages/storing.py",
        "    if new.given_id is not None:\n        return",
        "    if new.given_id is not None and find(conn, new.given_id) is None:\n        return",
        "a message that a program sends twice under one id is stored once",
        needs=("kill",),
        found=True,
        seed=289,
    ),
    Mutant(
        "takes-a-repetition-for-replicated",
        "shared/rest/resources/messages.py",
        "        await service.confirm()  # this answer too says that the message is stored\n",
        "",
        "what was accepted survives the loss of a disk",
        needs=("away, then lost",),
        found=True,
        seed=282,
    ),
    Mutant(
        "begins-the-stream-anew",
        _STREAM,
        "    last = latest if sent is None else min(int(sent), latest)  #",
        "    last = latest  #",
        "the stream of events leaves nothing out",
        found=True,
        seed=2,
    ),
    Mutant(
        "waits-for-an-event-of-another-database",
        _STREAM,
        "    last = latest if sent is None else min(int(sent), latest)  #",
        "    last = latest if sent is None else int(sent)  #",
        "a reader that names an event beyond all gets the next ones",
        test="tests/shared/rest/live/test_stream.py::test_a_reader_with_an_id_beyond_all_goes_on",
        why="the readers of a world name events of its database",
        found=True,
    ),
    Mutant(
        "gives-out-the-ids-of-lost-events",
        "shared/db/queue/epochs.py",
        '        conn.execute(_SKIP_EVENTS, {"skipped": skipped, "type": BEGAN, "now": now_ms})\n',
        "",
        "who had read events that a lost disk took misses none that came instead",
        needs=("lost disk", "away, then lost"),
        found=True,
        seed=282,
    ),
    Mutant(
        "gives-out-the-numbers-of-lost-responses",
        "shared/db/queue/epochs.py",
        '        conn.execute(_SKIP_RESPONSES, {"skipped": skipped, "now": now_ms})\n',
        "",
        "the number of a response that a program has fetched names no other one",
        needs=("lost disk", "away, then lost"),
        found=True,
        seed=664360316,
    ),
    Mutant(
        "names-an-event-before-it-is-whole",
        "shared/rest/live/frames.py",
        '        return b"".join(chosen[:-1]) + b"id: %d\\n%s" % (self.id, chosen[-1])\n',
        '        return b"id: %d\\n" % self.id + b"".join(chosen)\n',
        "who reads the stream has all of an event when its id comes",
        found=True,
        seed=2,
    ),
)
