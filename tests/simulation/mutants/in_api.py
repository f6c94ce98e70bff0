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
        "waits-for-an-event-of-a-lost-disk",
        _STREAM,
        "    last = latest if sent is None else min(int(sent), latest)  #",
        "    last = latest if sent is None else int(sent)  #",
        "the stream of events goes on after the loss of a disk",
        test="tests/shared/rest/live/test_stream.py::test_after_a_restore_a_reader_with_a_lost_id_goes_on",
        why="a world knows events by their ids, which come again after a loss",
        found=True,
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
